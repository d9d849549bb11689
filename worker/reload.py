"""SIGHUP: what of the configuration a running worker takes over, and what waits for its next start.

Code stays as it was imported: a module that is imported twice is two modules. A lease's length stays, because what
is held was claimed with it; and the slots, because the pools of connections and threads were made for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger.settings import Settings, load
from worker import notices, providers
from worker.handlers import Handlers
from worker.providers import Provider

STAYS = ("handlers", "app_sql", "lease_s", "send_slots", "look_slots")


@dataclass(frozen=True, slots=True)
class Anew:
    """What holds from now on. `after_restart` names what else the file changed."""

    settings: Settings
    providers: dict[str, Provider]
    after_restart: tuple[str, ...]


def read_again(old: Settings, handlers: Handlers) -> Anew:
    """File and secrets, read and checked whole. Raises Misconfigured; then nothing has changed."""
    new = load(old.config)
    handlers.check(new.sources)
    made = providers.build_all(new)
    stays = {name: getattr(old.worker, name) for name in STAYS}
    waits = [name for name in new.differences(old, "worker") if name.removeprefix("worker.") in STAYS]
    waits += new.differences(old, "database")
    waits += sorted({f"sources.{source} (notices)" for source, _ in notices.kinds(new) - set(handlers.kinds)})
    kept = {"worker": new.worker.model_copy(update=stays), "database": old.database}
    return Anew(new.model_copy(update=kept), made, tuple(waits))
