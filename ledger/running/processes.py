"""What `nottwice` starts, each as a process of its own, and how one sees that it is ready."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from ledger.environment import package_folder
from ledger.errors import Misconfigured
from ledger.settings import Settings
from ledger.sign_in.way_in import refuse_open_console

LOOPBACK = "127.0.0.1"
# A stop ends the lowest stage first: what makes work, then what does it, then what takes it in or shows it.
TRAFFIC, WORKERS, RECEIVER, CONSOLE, SANDBOX = range(5)


@dataclass(frozen=True, slots=True)
class Service:
    """One process to keep running. `ready_url` answers 200 when it is ready; None: ready as soon as it runs."""

    name: str
    stage: int
    command: tuple[str, ...]
    environment: Mapping[str, str]
    ready_url: str | None = None
    folder: Path | None = None
    takes_hangup: bool = field(default=False)  # reads its configuration again on SIGHUP
    rehearses: bool = field(default=False)  # knows the argument that only asks whether it could start
    inherits: tuple[int, ...] = ()  # open files that it is started with, beside its log


def services(settings: Settings) -> list[Service]:
    """What `nottwice up` runs, in the order of starting: receiver, workers, and the console where it is installed."""
    workers = [worker(settings, number) for number in range(1, settings.supervisor.workers + 1)]
    return [receiver(settings), *workers, *([console(settings)] if console_installed() else [])]


def receiver(settings: Settings) -> Service:
    return Service(
        "receiver",
        RECEIVER,
        module("ledger.receiver"),
        environment(settings),
        url(settings.receiver_port, "/readyz", reached_at(settings.receiver.host)),
        takes_hangup=True,
        rehearses=True,
    )


def worker(settings: Settings, number: int) -> Service:
    name = f"w-{number}"
    own = environment(settings) | {"NOTTWICE_WORKER_NAME": name}
    return Service(name, WORKERS, module("worker"), own, takes_hangup=True, rehearses=number == 1)


def console(settings: Settings) -> Service:
    """Raises Misconfigured where the console's packages are not installed, or people could not come in as configured."""
    package_folder("streamlit")
    refuse_open_console(settings)
    return Service(
        "console",
        CONSOLE,
        module("dashboard"),
        environment(settings),
        url(settings.console_port, "/_stcore/health", reached_at(settings.console.host)),
        folder=settings.home / "console",
    )


def sandbox(settings: Settings) -> Service:
    ready = url(settings.sandbox_port, "/sandbox/mails")
    return Service("sandbox", SANDBOX, module("worker.sandbox"), environment(settings), ready)


def traffic(settings: Settings) -> Service:
    return Service("traffic", TRAFFIC, module("worker.sandbox.traffic"), environment(settings))


def module(name: str) -> tuple[str, ...]:
    """To start a module of ours, or of a package: never (-P) one that lies where the command happens to be given."""
    return (sys.executable, "-P", "-m", name)


def url(port: int, path: str = "", host: str = LOOPBACK) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def reached_at(host: str) -> str:
    """Where a server that listens on `host` is reached from this machine."""
    return LOOPBACK if host in ("", "0.0.0.0", "::") else host  # noqa: S104 - compared, not bound


def environment(settings: Settings) -> dict[str, str]:
    """Ours, with what `settings` were read from said outright, so that a child reads the same."""
    named = {"NOTTWICE_HOME": str(settings.home)}
    if settings.config:
        named["NOTTWICE_CONFIG"] = str(settings.config)
    return {**os.environ, **named}


def console_installed() -> bool:
    return find_spec("streamlit") is not None and find_spec("dashboard") is not None


def make_folders(services: Iterable[Service]) -> None:
    """Where the console runs: Streamlit reads `.streamlit/config.toml` of its working folder."""
    for folder in filter(None, (service.folder for service in services)):
        (folder / ".streamlit").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_streamlit_config(), folder / ".streamlit" / "config.toml")


def _streamlit_config() -> Path:
    """Inside an installed package, or at the top of the source tree."""
    dashboard = package_folder("dashboard")
    inside = dashboard / "_streamlit" / "config.toml"
    return inside if inside.is_file() else dashboard.parent / ".streamlit" / "config.toml"


def refuse_busy_ports(wanted: Iterable[Service]) -> None:
    """Raises Misconfigured, with the variable that chooses another, for a port that is taken or wanted twice."""
    owners: dict[int, str] = {}
    for service in wanted:
        address = urlsplit(service.ready_url or "")
        if address.hostname is None or address.port is None:
            continue
        if (other := owners.setdefault(address.port, service.name)) != service.name:
            raise Misconfigured(
                f"Port {address.port} is for {other} and for {service.name}. "
                f"Choose another for one of them, as with NOTTWICE_{service.name.upper()}_PORT."
            )
        try:
            with socket.socket(socket.AF_INET6 if ":" in address.hostname else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
                probe.bind((address.hostname, address.port))
        except OSError as error:
            why = unusable(error, service.name, address.hostname, address.port)
            raise Misconfigured(why) from error


def unusable(error: OSError, name: str, host: str, port: int) -> str:
    """Why a process cannot listen there, and what to do: the address may be another machine's, the port taken."""
    if isinstance(error, socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return (
            f"[{name}] host is {host}, which is no address of this machine ({error.strerror}). "
            "Write one that it has, or 0.0.0.0 for all of them."
        )
    ours = "Stop what uses it, or choose" if error.errno == errno.EADDRINUSE else "Choose"
    return f"Port {port} of {host} cannot be used ({error.strerror}). {ours} another port with NOTTWICE_{name.upper()}_PORT."
