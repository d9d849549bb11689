"""Every setting, with its unit and its reason: one TOML file, and the environment.

    settings = load()
    database = settings.open_database("worker")

The file is NOTTWICE_CONFIG, else `nottwice.toml` or `demo.toml` in NOTTWICE_HOME, else nothing but defaults.
Unknown names and wrong types are refused with file and line. Secrets are never in the file: it names the
environment variables or files that hold them.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from ledger import environment
from ledger.errors import Misconfigured
from ledger.records import KindRules
from ledger.settings.processes import (
    ConsoleSettings,
    DatabaseSettings,
    PersonSettings,
    ReceiverSettings,
    ReprocessSettings,
    SupervisorSettings,
    WorkerSettings,
)
from ledger.settings.providers import ProviderSettings, known
from ledger.settings.retention import RetentionSettings
from ledger.settings.sign_in import ProxySettings, RolesSettings, SignInSettings
from ledger.settings.sources import SourceSettings
from ledger.settings.tables import ActionSettings, AlertSettings, Tables
from ledger.settings.words import explain, explain_syntax

if TYPE_CHECKING:
    from ledger.database import Database

__all__ = [
    "ActionSettings",
    "AlertSettings",
    "ConsoleSettings",
    "DatabaseSettings",
    "Login",
    "PersonSettings",
    "ProviderSettings",
    "ProxySettings",
    "ReceiverSettings",
    "ReprocessSettings",
    "RetentionSettings",
    "RolesSettings",
    "Settings",
    "SignInSettings",
    "SourceSettings",
    "SupervisorSettings",
    "WorkerSettings",
    "load",
]

NEAR = 0.75  # of 1: acm and acme, acem and acme; no two names that only begin alike
NUMBER = re.compile(r"\d+")
ADDRESSES = ("base_url", "log_url", "public_url")

Login = Literal["receiver", "worker", "console", "owner"]


class Settings(Tables):
    """All that configuration and environment say. Frozen: reading again makes a new one."""

    home: Path
    config: Path | None = None
    database_url: str | None = Field(default=None, repr=False)
    receiver_port: int
    console_port: int
    sandbox_port: int
    sandbox_smtp_port: int

    def secret(self, name: str) -> str:
        """The secret of that name, read anew each time, so that a rotated file is seen.

        Looked for as NOTTWICE_SECRET_<NAME>, as the environment variable itself, as a file in `secrets/` of
        the home, and as a path from the configuration's folder. Raises Misconfigured, without any value.
        """
        beside = self.config.parent if self.config else Path()
        files = (self.home / "secrets" / name, beside / Path(name).expanduser())
        found = environment.given_secret(name) or environment.kept_secret(name, files)
        if found is None:
            empty = environment.empty_variable(name)
            raise Misconfigured(
                f"The secret {name} is {f'empty in {empty}' if empty else 'nowhere'}. Set the environment variable "
                f"{environment.secret_variable(name)}, or write it into the file {files[0]}."
            )
        return found

    def differences(self, other: Settings, table: str) -> list[str]:
        """The settings of one table that are not the same, as `worker.lease_s`."""
        ours, theirs = getattr(self, table), getattr(other, table)
        return [
            f"{table}.{name}"
            for name in type(ours).model_fields
            if getattr(ours, name) != getattr(theirs, name)
        ]

    def refuse_missing_secrets(self) -> None:
        """Raises Misconfigured for the first secret of a source or a provider that is not to be had."""
        for source in self.sources.values():
            for name in source.secrets:
                self.secret(name)
        for provider in self.providers.values():
            if provider.key:
                self.secret(provider.key)

    def account_of(self, provider: str) -> str:
        """The account that a configured provider's name stands for."""
        return self.providers[provider].account or provider

    def rules(self, kind: str) -> KindRules:
        """What holds for one kind of action. A kind without a table of its own has the defaults: review, no approval.

        Raises Misconfigured when it is not clear by which provider it goes, and for a name nearly like a configured one.
        """
        action = self.actions.get(kind) or self._unnamed_kind(kind)
        provider = self.providers[action.provider]
        return KindRules(
            kind=kind,
            provider=action.provider,
            account=self.account_of(action.provider),
            place=provider.place,
            policy=action.policy,
            approval=action.approval,
            key_window_s=provider.window_s,
            key_margin_s=provider.margin_s,
            evidence_s=action.evidence_s,
            retry_for_s=action.retry_for_s,
            cost=action.cost,
            cost_reason=action.cost_reason,
            tells=action.tell_when_sent,
            key=action.template,
            send_before_s=action.send_before,
            rate=action.rate,
            provider_kind=provider.kind,
        )

    def refuse_near_namespace(self, namespace: str) -> None:
        """Raises Misconfigured for a name nearly like one that sources or [retention.namespaces] have.

        Any other name is allowed, as a kind is without a table of its own: an application may have namespaces that no
        source brings anything into. One that differs only in its numbers (tenant-1, tenant-12) is no slip of the pen.
        """
        known = {source.namespace for source in self.sources.values()} | {*self.retention.namespaces}
        if not isinstance(namespace, str) or namespace in known:
            return
        others = sorted(known - _siblings(namespace, known))
        if close := get_close_matches(namespace, others, n=1, cutoff=NEAR):
            raise Misconfigured(
                f"Nothing is configured of the namespace {namespace!r}; did you mean {close[0]}? If not, add "
                f"[retention.namespaces.{namespace}], empty or not, to {self.config or 'the configuration'}. Nothing was proposed."
            )

    def _unnamed_kind(self, kind: str) -> ActionSettings:
        """The careful defaults. A name that is nearly a configured one would lose its approval by a slip of the pen."""
        if close := get_close_matches(kind, self.actions, n=1):
            raise Misconfigured(
                f"There is no [actions.{kind}]; did you mean {close[0]}? If not, add the table, however short, "
                f"to {self.config or 'the configuration'}."
            )
        if len(self.providers) != 1:
            raise Misconfigured(
                f"There is no [actions.{kind}], and {len(self.providers)} providers to choose from. "
                f"Add the table with its provider to {self.config or 'the configuration'}."
            )
        return ActionSettings(provider=next(iter(self.providers)))

    @property
    def app_sql(self) -> Path | None:
        """The folder with the handlers' own numbered SQL files: a path, or `package:folder`."""
        named = self.worker.app_sql
        if not named:
            return None
        if ":" in named:
            package, _, folder = named.partition(":")
            return environment.package_folder(package) / folder
        return (self.config.parent if self.config else Path()) / Path(named).expanduser()

    def url(self, login: Login) -> str:
        """The database's URL for one kind of process; without DATABASE_URL, starts the embedded server.

        With DATABASE_URL the login is the one in it: each process has an environment of its own.
        """
        if self.database_url:
            from ledger.database import usable

            return usable(self.database_url)
        from ledger.embedded import Cluster  # psutil and the binaries are for those who have no server

        cluster = Cluster(self.home)
        cluster.ensure()
        return cluster.url("postgres" if login == "owner" else f"nottwice_{login}")

    def open_database(
        self, login: Login, *, pool_size: int | None = None, pre_ping: bool = True, prepare: bool = False
    ) -> Database:
        """A pool of connections under one login. Raises what starting an embedded server raises.

        `prepare` where there is surely no pooler: at the embedded server, or where the configuration says so.
        """
        from ledger.database import Database  # SQLAlchemy takes a while; `nottwice --help` does without

        return Database(
            self.url(login),
            pool_size=pool_size or self.database.pool_size,
            pool_wait_s=self.database.pool_wait_s,
            connect_timeout_s=self.database.connect_timeout_s,
            silence_s=self.database.silence_s,
            pre_ping=pre_ping,
            prepare=prepare and (self.database.direct or not self.database_url),
        )


def _siblings(name: str, known: Iterable[str]) -> set[str]:
    """Those of the known that are the same but for their numbers."""
    return {one for one in known if NUMBER.sub("0", one) == NUMBER.sub("0", name)}


def load(path: Path | None = None) -> Settings:
    """Read file and environment. Raises Misconfigured, which names the file, the line and what to do."""
    home, ports = environment.home_folder(), environment.ports()
    file = path.absolute() if path else environment.config_file(home)
    tables = read_tables(file, ports) if file else Tables()
    given: dict[str, Any] = {name: getattr(tables, name) for name in Tables.model_fields} | ports
    return Settings(**given, home=home, config=file, database_url=environment.database_url())


def read_tables(file: Path, ports: Mapping[str, int]) -> Tables:
    """The file's tables, checked. `{sandbox_port}`, `{receiver_port}` … in an address stand for ports."""
    try:
        text = file.read_text(encoding="utf-8")
        tree = _filled(tomllib.loads(text), ports)
        # Through JSON, because only there strict types still take a list for a tuple and a text for a path.
        return Tables.model_validate_json(json.dumps(tree, default=str), strict=True)
    except OSError as error:
        raise Misconfigured(f"The configuration {file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Misconfigured(f"{file}, line {line}: this is not UTF-8 text. Save the file as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(explain_syntax(file, error)) from error
    except ValidationError as error:
        raise Misconfigured(explain(file, text, error, Tables)) from None  # the values may be secrets


def _filled(tree: dict[str, Any], ports: Mapping[str, int]) -> dict[str, Any]:
    """What follows when it is left out: a source's namespace, a provider's account, and what its kind is known for."""
    for kind, member in (("sources", "namespace"), ("providers", "account")):
        tables = tree.get(kind)
        for name, table in tables.items() if isinstance(tables, dict) else ():
            if isinstance(table, dict):
                table.setdefault(member, name)
                for address in ADDRESSES:
                    if isinstance(table.get(address), str):
                        table[address] = _with_ports(table[address], ports)
                if kind == "providers":
                    for name, value in known(table.get("kind")).items():
                        table.setdefault(name, value)
    return tree


def _with_ports(address: str, ports: Mapping[str, int]) -> str:
    for name, port in ports.items():
        address = address.replace(f"{{{name}}}", str(port))
    return address
