"""`python -m ledger.receiver.catch_up`: the side entrance as a process, under the receiver's login.

It is asked by `nottwice catch-up` over standard input (`ledger.catch_up.talk`) and answers what became of each line:
"new", "known", "not_compared" or "conflict" for a look; "accepted", "duplicate", "conflict", "quarantined" for what
is stored; "unreadable" for what is nothing; "withheld" for what is older than keys are kept, and may have been an
event once. Works whether a receiver runs or not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from ledger.awake import visit
from ledger.catch_up import runs as catch_up_runs
from ledger.catch_up.talk import Answer, Question, serve
from ledger.database import Database
from ledger.errors import LedgerError, Misconfigured
from ledger.inbox.standing import find_standing
from ledger.payload import Malformed
from ledger.receiver import handed_in, storing
from ledger.receiver.sources import adapters
from ledger.receiver.sources.adapter import Adapter, Item
from ledger.receiver.writer import Writer
from ledger.records import Acceptance, AcceptanceKind, Delivery
from ledger.settings import Settings, load

DAY_S = 86_400.0
# What a look calls an event that stands already; a look at its key does not store what storing would.
SEEN = {
    AcceptanceKind.DUPLICATE: "known",
    AcceptanceKind.NOT_COMPARED: "not_compared",
    AcceptanceKind.CONFLICT: "conflict",
}


@dataclass(slots=True)
class Found:
    """One event of one line, or why there is none. `old`: from before the time that keys are kept for."""

    item: Item | None
    became: str
    reason: str = ""
    old: bool = False

    def told(self, place: int) -> dict[str, Any]:
        return {"place": place, "became": self.became, "reason": self.reason, "old": self.old}


class Entrance:
    """One source's side entrance, for as long as one command runs."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings, self._database = settings, database
        receiver = settings.receiver
        self._writer = Writer(
            database, lock_wait_s=receiver.side_wait_s, statement_s=receiver.answer_within_s
        )
        self._adapter: Adapter
        self._horizon: datetime
        self._run_id = 0

    def answer(self, question: Question, bodies: list[bytes]) -> dict[str, Any]:
        asked: Answer = getattr(self, f"_{question['ask']}")
        return asked(question, bodies)

    def _begin(self, question: Question, _: list[bytes]) -> dict[str, Any]:
        self._adapter = self._found_adapter(question["source"])
        handed_in.require_form(self._adapter, question["form"])
        kept_days = self._settings.retention.of(self._adapter.settings.namespace).event_keys_days
        sql = "SELECT now() - make_interval(secs => :kept_s) AS at"
        self._horizon = self._database.run(lambda tx: tx.one(sql, kept_s=kept_days * DAY_S).at)
        run = self._database.run(lambda tx: self._run(tx, question)) if question["go"] else None
        self._run_id = run.id if run else 0
        receiver = self._settings.receiver
        return {
            "namespace": self._adapter.settings.namespace,
            "kept_days": kept_days,
            "horizon": self._horizon.isoformat(),
            "line_bytes_max": receiver.body_bytes_max * 2,  # an envelope's text is longer than what is in it
            "run": asdict(run) | {"saved_at": run.saved_at.isoformat()} if run else None,
        }

    def _run(self, tx: Any, question: Question) -> catch_up_runs.Run:
        return catch_up_runs.begin(
            tx,
            source=self._adapter.name,
            namespace=self._adapter.settings.namespace,
            read_from=question["read_from"],
            same=question["same"],
            afresh=question["afresh"],
        )

    def _found_adapter(self, source: str) -> Adapter:
        found = adapters(self._settings).get(source)
        if found is None:
            known = ", ".join(sorted(self._settings.sources)) or "none"
            raise Misconfigured(f"There is no [sources.{source}] in the configuration; known are: {known}.")
        return found

    def _look(self, question: Question, bodies: list[bytes]) -> dict[str, Any]:
        lines = [self._read(question["form"], body) for body in bodies]
        self._note_known([found for line in lines for found in line])
        return {"found": list(_told(lines))}

    def _store(self, question: Question, bodies: list[bytes]) -> dict[str, Any]:
        """Durable when it is answered. `position` is kept after that, so that it is never ahead of what is stored."""
        lines = [self._read(question["form"], body) for body in bodies]
        if not question["beyond"]:
            self._withhold([found for line in lines for found in line if found.old])
        todo = [found for line in lines for found in line if found.became in ("new", "quarantined")]
        for part in _parts(todo, self._settings.receiver.batch_max):
            items = [found.item for found in part if found.item is not None]
            for found, acceptance in zip(part, self._stored(items), strict=True):
                found.became = acceptance.kind.value
        return {"found": list(_told(lines))}

    def _stored(self, items: Sequence[Item]) -> list[Acceptance]:
        return storing.store(self._writer, items) if items else []

    def _save(self, question: Question, _: list[bytes]) -> dict[str, Any]:
        position, counts = question["position"], question["counts"]
        self._database.run(lambda tx: catch_up_runs.save(tx, self._run_id, position, counts))
        return {}

    def _end(self, _: Question, __: list[bytes]) -> dict[str, Any]:
        self._database.run(lambda tx: catch_up_runs.end(tx, self._run_id))
        return {}

    # ── One line ──────────────────────────────────────────────────────────────────────────────────────

    def _read(self, form: str, body: bytes) -> list[Found]:
        try:
            items = handed_in.read(self._adapter, form, body, self._settings.receiver.body_bytes_max)
        except Malformed as error:
            return [Found(None, "unreadable", str(error))]
        return [self._judged(item) for item in items]

    def _judged(self, item: Item) -> Found:
        if not isinstance(item, Delivery):
            return Found(item, "quarantined", item.reason)
        return Found(item, "new", old=item.occurred_at is not None and item.occurred_at < self._horizon)

    def _note_known(self, lines: Sequence[Found]) -> None:
        new = [(found, found.item) for found in lines if isinstance(found.item, Delivery)]
        deliveries = [item for _, item in new]
        standing = self._database.run(lambda tx: find_standing(tx, dict(enumerate(deliveries))))
        for place, (found, _) in enumerate(new):
            found.became = SEEN[standing[place].kind] if place in standing else "new"

    def _withhold(self, old: Sequence[Found]) -> None:
        """What is old and not known any more may have been worked: nobody stores it unless told to."""
        if old:
            self._note_known(old)
        for found in old:
            found.became = "withheld" if found.became == "new" else "new"


def _told(lines: Iterable[Sequence[Found]]) -> Iterator[dict[str, Any]]:
    return (found.told(place) for place, line in enumerate(lines) for found in line)


def _parts(found: Sequence[Found], rows_max: int) -> Iterator[Sequence[Found]]:
    for first in range(0, len(found), rows_max):
        yield found[first : first + rows_max]


@contextmanager
def entrance() -> Iterator[Answer]:
    settings = load()
    with visit(settings, "receiver") as database:
        yield Entrance(settings, database).answer


def main() -> int:
    """A start that fails is the answer to the first question, so that it is said once, and by the command."""
    try:
        with entrance() as answer:
            serve(answer)
    except LedgerError as error:
        failed = error

        def refuse(_: Question, __: list[bytes]) -> dict[str, Any]:
            raise failed

        serve(refuse)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
