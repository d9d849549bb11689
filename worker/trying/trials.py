"""What all trials of a run share: a server, a migrated database to copy, your handlers, a sandbox."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from ledger.database import Database
from ledger.database.copied import Mould
from ledger.embedded import Cluster
from ledger.settings import Settings, load
from worker import loading, notices
from worker.trying.sandbox import Sandbox
from worker.trying.trial import Trial

# A crash of this machine may cost a trial its data.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
SERVER = "NOTTWICE_TRIAL_URL"


class _TrialSettings(Settings):
    """The same configuration, with secrets that open nothing but the sandbox."""

    def secret(self, name: str) -> str:
        return "trial"


class Trials:
    """Use as a context, once for all your tests. `config` is your configuration file.

    The server is an embedded one in a temporary folder (it takes a few seconds to start), or that of `NOTTWICE_TRIAL_URL`, as
    a login that may create databases and roles. Each trial gets a new database there; no other is ever written to, and
    DATABASE_URL is not looked at. Where logins need no password, handlers run as `nottwice_worker`, so that a forgotten
    GRANT is noticed. Every provider leads to a sandbox in this process: nothing goes out.
    """

    def __init__(self, config: Path | str) -> None:
        self._config = Path(config)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            settings = load(self._config)
            self._sandbox = stack.enter_context(Sandbox({p.kind for p in settings.providers.values()}))
            self._settings = _sent_to(self._sandbox, settings)
            self._handlers = notices.add_to(loading.load(settings), settings)
            url = os.environ.get(SERVER) or stack.enter_context(_server())
            self._mould = stack.enter_context(Mould(url, app_sql=settings.app_sql))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stack.close()

    @contextmanager
    def new(self) -> Iterator[Trial]:
        """A trial with a database of its own, which is removed at the end of the block."""
        self._sandbox.forget()
        with self._mould.copy() as name, ExitStack() as stack:
            owner, worker = (Database(self._mould.url(name, login)) for login in ("", "nottwice_worker"))
            stack.callback(owner.close)
            stack.callback(worker.close)
            yield Trial(owner, worker, self._settings, self._handlers, self._sandbox)


def _sent_to(sandbox: Sandbox, settings: Settings) -> Settings:
    given = {name: getattr(settings, name) for name in Settings.model_fields}
    given["providers"] = {name: sandbox.leads_here(provider) for name, provider in settings.providers.items()}
    return _TrialSettings.model_construct(**given)


@contextmanager
def _server() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="nottwice-trials-") as home:
        server = Cluster(home, settings=FAST)
        server.ensure()
        try:
            yield server.url()
        finally:
            server.stop()
