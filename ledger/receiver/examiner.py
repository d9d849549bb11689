"""Reads again what is in quarantine, where a person asked for it: as the front door would read it now, but unsigned,
for it was authentic when it came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from ledger.database import Database
from ledger.kept import examining
from ledger.kept.examining import Asked, Result
from ledger.payload import Malformed
from ledger.receiver import handed_in, storing
from ledger.receiver.log import note
from ledger.receiver.sources.adapter import Adapter, Item
from ledger.receiver.writer import Writer
from ledger.records import Acceptance, AcceptanceKind, Unusable
from ledger.settings.processes import ReceiverSettings

RESULTS: dict[AcceptanceKind, Result] = {
    AcceptanceKind.ACCEPTED: "event",
    AcceptanceKind.DUPLICATE: "known",
    AcceptanceKind.NOT_COMPARED: "known",
    AcceptanceKind.CONFLICT: "conflict",
}


Sources = Callable[[], Mapping[str, Adapter]]


class Examiner:
    """Looks every beat until it is stopped, whatever the database does."""

    def __init__(self, receiver: ReceiverSettings, sources: Sources) -> None:
        """`sources`: those of now, which a SIGHUP replaces."""
        self._receiver, self._sources = receiver, sources

    async def look(self, database: Database, desk: Executor) -> None:
        """Returns only by being cancelled."""
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(desk, self.examine_all, database)
            except Exception as error:  # noqa: BLE001 - the next look tries again
                note("quarantine not examined", error=type(error).__name__)
            await asyncio.sleep(self._receiver.beat_s)

    def examine_all(self, database: Database) -> int:
        """Everything that is asked for; how many that were."""
        n = 0
        while (asked := database.run(examining.oldest)) is not None:
            self._examine(database, asked)
            n += 1
        return n

    def _examine(self, database: Database, asked: Asked) -> None:
        items, reason = self._read(asked)
        unusable = next((item.reason for item in items if isinstance(item, Unusable)), "")
        if unusable or not items:
            why = reason or unusable or "There is no event in it."
            database.run(lambda tx: examining.finish(tx, asked, "no_event", reason=why))
            return
        stored = self._stored(database, items)
        worst = max(stored, key=lambda one: one.kind is not AcceptanceKind.ACCEPTED)
        result = RESULTS.get(worst.kind)
        if result is None:  # the database could not hold it
            database.run(lambda tx: examining.finish(tx, asked, "no_event", reason="It cannot be stored."))
            return
        database.run(lambda tx: examining.finish(tx, asked, result, event_id=stored[0].event_id))

    def _read(self, asked: Asked) -> tuple[list[Item], str]:
        """Its events, or why there are none."""
        adapter = self._sources().get(asked.source)
        if adapter is None:
            return [], f"[sources.{asked.source}] is no longer in the configuration."
        if asked.body is None:
            return [], "Its bytes are no longer kept."
        if needed := ", ".join(adapter.named_by_headers):
            return [], f"Its events are named by headers ({needed}), which are not kept."
        try:
            return handed_in.read(adapter, "body", asked.body, self._receiver.body_bytes_max), ""
        except Malformed as error:
            return [], str(error)

    def _stored(self, database: Database, items: list[Item]) -> list[Acceptance]:
        limits = self._receiver
        writer = Writer(database, lock_wait_s=limits.side_wait_s, statement_s=limits.answer_within_s)
        return storing.store(writer, items)
