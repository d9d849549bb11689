"""`nottwice demo`: the whole chain against a sandbox provider, with live traffic and workers that die.

Its configuration is made once, in NOTTWICE_HOME, and may be edited there; its secrets are made beside it, unless
they are given in the environment.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from ledger import environment
from ledger.running import make_home, processes
from ledger.running.processes import WORKERS, Service
from ledger.running.supervisor import Supervisor
from ledger.settings import Settings, load
from ledger.simulated import new_secret


def prepare() -> Settings:
    """The demo's settings; makes the files that are missing. NOTTWICE_CONFIG is used when it is set."""
    home = environment.home_folder()
    make_home(home)
    named = os.environ.get("NOTTWICE_CONFIG")
    config = Path(named).expanduser().absolute() if named else home / "demo.toml"
    if not named and not config.exists():
        _write(config, environment.package_folder("worker.sandbox").joinpath("demo.toml").read_text("utf-8"))
    settings = load(config)
    for name, secret in _secrets(settings).items():
        _keep(settings, name, secret)
    return settings


def services(settings: Settings) -> list[Service]:
    """What `up` runs, between the provider that answers and the traffic that arrives."""
    return [processes.sandbox(settings), *processes.services(settings), processes.traffic(settings)]


class Killer:
    """Kills a worker as a crash would, now and then, each in its turn. Call it with the seconds that passed."""

    def __init__(self, supervisor: Supervisor, settings: Settings, tell: Callable[[str], None]) -> None:
        self._workers = [child for child in supervisor.children if child.service.stage == WORKERS]
        self._supervisor, self._tell = supervisor, tell
        self._every_s = settings.supervisor.kill_worker_every_s
        self._within_s = settings.worker.lease_s + settings.worker.sweep_s
        self._kills = 0

    def __call__(self, passed_s: float) -> None:
        if not (self._every_s and self._workers) or passed_s < self._every_s * (self._kills + 1):
            return
        victim = self._workers[-1 - self._kills % len(self._workers)]
        self._kills += 1
        if self._supervisor.kill(victim):
            self._tell(
                f"worker {victim.service.name} was killed, on purpose; its work will be taken over within {self._within_s:g} s"
            )


def _secrets(settings: Settings) -> dict[str, str]:
    """A fresh value for each secret that the configuration names, in the form its kind demands."""
    made = {}
    for source in settings.sources.values():
        for name in source.secrets:
            made[name] = new_secret(source)
    for provider in settings.providers.values():
        if provider.key:
            made[provider.key] = secrets.token_urlsafe(32)
    return made


def _keep(settings: Settings, name: str, secret: str) -> None:
    """Writes the secret where it is looked for, unless it is given already."""
    if environment.given_secret(name):
        return
    folder = settings.home / "secrets"
    folder.mkdir(mode=0o700, exist_ok=True)
    if Path(name).name == name and not (folder / name).exists():
        _write(folder / name, secret + "\n")


def _write(path: Path, text: str) -> None:
    """Whole or not at all, readable by its owner alone."""
    new = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
