"""Quarantine examined again: asked for by a person, read by a receiver, and each says what became of it."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger.database import Database
from ledger.errors import NotAllowed, NotNow
from ledger.kept import examining
from ledger.receiver.examiner import Examiner
from ledger.receiver.sources.adapter import Adapter
from ledger.receiver.sources.generic import Generic
from ledger.records import Act, Role
from ledger.settings import SourceSettings
from ledger.settings.processes import ReceiverSettings
from ledger.sign_in import people
from ledger.views import kept as views_kept
from ledger.views.kept import Quarantined
from tests.fix_events import Ledger, unusable

GOOD, BAD = b'{"id": "evt_7", "type": "paid"}', b'{"no": "key"}'


def shop() -> Adapter:
    """As the configuration is now that it was put right."""
    made = SourceSettings(
        kind="generic",
        namespace="acme",
        secrets=("s",),
        signature_header="X-S",
        key_path="id",
        type_path="type",
    )  # type: ignore[call-arg]
    return Generic("shop", made, ["a secret that is long enough"])


class Bench:
    """A database with what came while the source looked for its key in the wrong place."""

    def __init__(self, owner: Database, opened_as: Callable[[str], Database]) -> None:
        self.book = Ledger(owner)
        self.console, self.receiver = (opened_as(f"nottwice_{name}") for name in ("console", "receiver"))
        self.sources: dict[str, Adapter] = {"shop": shop()}
        self.examiner = Examiner(ReceiverSettings(), lambda: self.sources)
        self.book.accept(unusable(GOOD, reason="There is no nr."), unusable(BAD, reason="There is no nr."))
        self.good, self.bad = (self.book.value("SELECT id FROM nottwice.quarantine WHERE body = :b", b=b) for b in (GOOD, BAD))  # fmt: skip

    def act(self, role: Role = Role.ENGINEER) -> Act:
        given = lambda tx: people.person(tx, people.LOCAL, role.value, role.value, "", role)  # noqa: E731
        return Act(self.console.run(given), uuid4())

    def ask(self, *ids: int, role: Role = Role.ENGINEER) -> int:
        act = self.act(role)
        return self.console.run(lambda tx: examining.ask(tx, ids, act), role=role)

    def look(self) -> int:
        return self.examiner.examine_all(self.receiver)

    def one(self, id_: int) -> Quarantined:
        found = self.console.run(lambda tx: views_kept.quarantined(tx, id_), role=Role.VIEWER)
        assert found is not None
        return found


@pytest.fixture
def bench(database: Database, opened_as: Callable[[str], Database]) -> Bench:
    return Bench(database, opened_as)


def test_what_is_an_event_now_leaves_quarantine_and_the_rest_stays_with_its_reason_of_now(
    bench: Bench,
) -> None:
    assert bench.look() == 0
    assert bench.ask(bench.good, bench.bad) == 2
    assert bench.one(bench.good).result is None
    assert bench.look() == 2
    good, bad = bench.one(bench.good), bench.one(bench.bad)
    assert (good.result, good.why_not, bad.result, bad.event_id) == ("event", "", "no_event", None)
    assert good.settled_at is not None
    assert bad.settled_at is None
    assert bad.why_not == "It has no usable type."
    sql = "SELECT event_key || ' ' || state FROM nottwice.events WHERE id = :id"
    assert bench.book.value(sql, id=good.event_id) == "paid evt_7 pending"
    left = bench.console.run(views_kept.quarantine, role=Role.VIEWER)
    assert [one.id for one in left] == [bench.bad]
    acts = bench.book.database.run(
        lambda tx: tx.all("SELECT act, entity, entity_id FROM nottwice.audit ORDER BY id")
    )
    assert [tuple(act) for act in acts] == [
        ("examine again", "quarantine", id_) for id_ in sorted((bench.good, bench.bad))
    ]


def test_an_event_that_came_in_the_meantime_is_known_and_no_second_one(bench: Bench) -> None:
    item = shop().found({"content-type": "application/json"}, GOOD)[0]
    bench.book.accept(item)
    bench.ask(bench.good)
    assert bench.look() == 1
    assert bench.one(bench.good).result == "known"
    assert bench.book.value("SELECT count(*) FROM nottwice.events") == 1


def test_asked_twice_is_one_examination_and_settled_is_none(bench: Bench) -> None:
    bench.ask(bench.good)
    with pytest.raises(NotNow, match="asked for already"):
        bench.ask(bench.good)
    bench.look()
    with pytest.raises(NotNow, match="settled"):
        bench.ask(bench.good)
    bench.ask(bench.bad)
    bench.look()
    assert bench.ask(bench.bad) == 1, "what is still none may be tried after the next change"


def test_a_source_that_is_gone_says_so(bench: Bench) -> None:
    bench.sources.clear()
    bench.ask(bench.good)
    bench.look()
    assert bench.one(bench.good).why_not == "[sources.shop] is no longer in the configuration."


def test_who_may_not_is_refused_by_the_ledger_and_by_the_database(bench: Bench) -> None:
    with pytest.raises(NotAllowed):
        bench.ask(bench.good, role=Role.AUDITOR)
    act = bench.act()
    forged = "INSERT INTO nottwice.examinations (quarantine_id, asked_by) VALUES (:id, :person)"
    with pytest.raises(DBAPIError, match="without its audit row"):
        bench.console.run(lambda tx: tx.execute(forged, id=bench.good, person=act.person.id) and None, role=Role.ENGINEER)  # fmt: skip
    with pytest.raises(DBAPIError, match="permission denied"):
        bench.console.run(lambda tx: tx.execute(forged, id=bench.good, person=act.person.id) and None, role=Role.VIEWER)  # fmt: skip
