"""What the environment says: where home is, which ports, which file, which secrets."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from ledger.errors import Misconfigured

SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
URL_FORM = "postgresql://LOGIN:PASSWORD@HOST:PORT/DATABASE"
PORTS = {"receiver_port": 8080, "console_port": 8501, "sandbox_port": 8090}
SMTP_BESIDE = 25  # the sandbox's mail server is so many ports above its page, unless it is told another


def home_folder() -> Path:
    """NOTTWICE_HOME: data, and configuration that is made."""
    return Path(os.environ.get("NOTTWICE_HOME") or "~/.nottwice").expanduser().absolute()


def config_file(home: Path) -> Path | None:
    """The file that NOTTWICE_CONFIG names, else what stands in the home; None when there is neither."""
    if named := os.environ.get("NOTTWICE_CONFIG"):
        return Path(named).expanduser().absolute()
    return next((file for file in (home / "nottwice.toml", home / "demo.toml") if file.is_file()), None)


def ports() -> dict[str, int]:
    """By the settings' names. Raises Misconfigured for what is no port."""
    found = {name: _port(f"NOTTWICE_{name.upper()}", default) for name, default in PORTS.items()}
    beside = found["sandbox_port"] + SMTP_BESIDE
    beside = beside if beside < 65_536 and beside not in found.values() else beside - 2 * SMTP_BESIDE
    return found | {"sandbox_smtp_port": _port("NOTTWICE_SANDBOX_SMTP_PORT", beside)}


def database_url() -> str | None:
    """DATABASE_URL, in the spelling that SQLAlchemy knows. Raises Misconfigured, without the URL: it holds a password."""
    given = os.environ.get("DATABASE_URL") or None
    if given is None:
        return None
    scheme, found, rest = given.partition("://")
    if not found or scheme not in SCHEMES:
        raise Misconfigured(f"DATABASE_URL is no address of a PostgreSQL server. Write it as {URL_FORM}.")
    try:
        return _with_hosts_apart(rest)
    except ValueError:
        raise Misconfigured(
            f"DATABASE_URL cannot be read. Write it as {URL_FORM}, several hosts with a comma between, and with "
            "%40 for an @, %2F for a / and %23 for a # in the password."
        ) from None


def _with_hosts_apart(rest: str) -> str:
    """`login@a:1,b:2/ledger`, as libpq writes a primary and its standbys, in SQLAlchemy's spelling. Raises ValueError."""
    parts = urlsplit(f"//{rest}")
    login, at, hosts = parts.netloc.rpartition("@")
    for host in hosts.split(","):
        urlsplit(f"//{host}").port  # noqa: B018 - raises for what is no number
    if "," not in hosts:
        return f"postgresql+psycopg://{rest}"
    query = "&".join(filter(None, (parts.query, *(f"host={host}" for host in hosts.split(",")))))
    return f"postgresql+psycopg://{login}{at}{parts.path}?{query}"


def secret_variable(name: str) -> str:
    """`agentmail-webhook` is looked for as NOTTWICE_SECRET_AGENTMAIL_WEBHOOK."""
    return "NOTTWICE_SECRET_" + "".join(c if c.isalnum() else "_" for c in name).upper()


def given_secret(name: str) -> str | None:
    """The secret as an environment variable: ours, else the one of its own name. As of a file, without blanks around it."""
    return _set(secret_variable(name)) or _set(name) or None


def empty_variable(name: str) -> str | None:
    """The variable that should hold the secret and is there, but empty."""
    return next((one for one in (secret_variable(name), name) if _set(one) == ""), None)


def _set(variable: str) -> str | None:
    found = os.environ.get(variable)
    return None if found is None else found.strip()


def kept_secret(name: str, files: Iterable[Path]) -> str | None:
    """The secret from the first of the files that exists. Raises Misconfigured for one that says nothing."""
    for path in files:
        try:
            found = path.read_text(encoding="utf-8").strip()
            break
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            what = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise Misconfigured(f"The secret {name} cannot be read from {path}: {what}.") from None
    else:
        return None
    if not found:
        raise Misconfigured(f"The file {path} of the secret {name} is empty.")
    return found


def package_folder(name: str) -> Path:
    """Where a package's files are, without running it. Raises Misconfigured when it is not installed."""
    try:
        spec = find_spec(name)
    except ImportError:  # the package around it is missing
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured(
            f"The package {name} is not installed here. If it is one of ours, install `not-twice[console,embedded]`."
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _port(variable: str, default: int) -> int:
    text = os.environ.get(variable) or str(default)
    if not (text.isdecimal() and 1 <= int(text) <= 65_535):
        raise Misconfigured(f"{variable} is {text!r}; a port is a number from 1 to 65535.")
    return int(text)
