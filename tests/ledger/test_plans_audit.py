"""What the record costs when it is long: 100,000 sealed entries, most of them a policy's, and three that wait.

Read twice: with fresh statistics, and with those of a table that was still empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from ledger.audit import choice as audit_choice
from ledger.audit import seals
from ledger.audit.choice import Chosen
from ledger.database import Transaction
from ledger.embedded import Cluster
from ledger.records import Person, Role
from ledger.views import audit as views_audit
from tests.fix_events import Ledger
from tests.fix_past import copy_of, database_with_a_past
from tests.ledger.test_plans_events import plan, rolled_back

pytestmark = pytest.mark.xdist_group("plans of the record")

HISTORY = 100_000
EVE = Person(1, "local", "eve", "Eve", "", Role.AUDITOR)
# One a minute. Each 200th is Ann's, each 1000th was refused, and the only export is the very first.
FILL = """
INSERT INTO nottwice.audit (at, person_id, role, act, entity, entity_id, outcome, why)
SELECT now() - make_interval(mins => CAST(:n AS integer) - n), CASE WHEN n % 200 = 0 THEN 2 END, 'policy',
       CASE WHEN n = 1 THEN 'exported the record' ELSE 'closed by policy' END, 'action', n / 4,
       CASE WHEN n % 1000 = 0 THEN 'refused' ELSE 'done' END, repeat('why ', 20)
FROM generate_series(1, CAST(:n AS integer)) AS n
"""


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Iterator[Ledger]:
    with database_with_a_past(cluster, "history") as book:
        fill(book)
        yield book


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def history(cluster: Cluster, filled: Ledger, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    with copy_of(
        cluster,
        filled,
        *(("audit", "audit_seals", "audit_unsealed", "people") if request.param == "analyzed" else ()),
    ) as book:
        yield book


def fill(book: Ledger) -> None:
    for table in ("audit", "audit_seals", "audit_unsealed"):
        book.run(f"ALTER TABLE nottwice.{table} SET (autovacuum_enabled = off)")
    for name in ("eve", "ann"):
        book.run(
            "INSERT INTO nottwice.people (issuer, subject, name) VALUES ('local', :name, :name)", name=name
        )
    book.run("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
    book.run(FILL, n=HISTORY)
    book.run("INSERT INTO nottwice.audit_seals SELECT id, id, '', '' FROM nottwice.audit")
    book.run("ALTER TABLE nottwice.audit ENABLE TRIGGER USER")
    for n in range(3):
        book.run(
            "INSERT INTO nottwice.audit (role, act, entity, entity_id, outcome) VALUES ('policy', 'new', 'action', :n, 'refused')",
            n=n,
        )


# ── Sealing ───────────────────────────────────────────────────────────────────────────────────────────

ROWS_READ = """
SELECT CAST(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) AS bigint) AS n
FROM pg_stat_xact_user_tables WHERE relname IN ('audit', 'audit_seals')
"""


def counted(book: Ledger, body: Callable[[Transaction], Any]) -> tuple[Any, int]:
    """What it returned, and how many rows of the record the server read for it."""

    def between(tx: Transaction) -> tuple[Any, int]:
        before = tx.one(ROWS_READ).n
        return body(tx), tx.one(ROWS_READ).n - before

    result: tuple[Any, int] = rolled_back(book, between)
    return result


def test_sealing_does_not_read_the_history(history: Ledger) -> None:
    ids = list(range(HISTORY + 1, HISTORY + 4))
    for sql, values in ((seals.WAITING, {"limit": 500}), (seals.ENTRIES, {"ids": ids})):
        found = plan(history, sql, **values)
        assert "audit" not in found.scanned_whole and found.pages < 50


def test_sealing_reads_as_many_rows_as_wait(history: Ledger) -> None:
    sealed, read = counted(history, seals.seal)
    assert sealed == 3 and 3 <= read < 20


def test_looking_for_what_is_left_unsealed_does_not_read_the_history(history: Ledger) -> None:
    assert counted(history, lambda tx: seals.unsealed(tx, 0)) == (3, 0)


# ── Pages ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Asked:
    chosen: Chosen
    entries: int  # on the first page
    read_max: int  # rows of audit and seals


NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(minutes=HISTORY - 500)
PAGES = {
    "all": Asked(Chosen(), 25, 100),
    "of a person": Asked(Chosen(person=2), 25, 100),
    "of a policy": Asked(Chosen(person=audit_choice.POLICY), 25, 100),
    "about a send": Asked(Chosen(entity="action", entity_id=77), 4, 100),
    "about all sends": Asked(Chosen(entity="action"), 25, 100),
    "refused": Asked(Chosen(outcome="refused"), 25, 100),
    "a rare act": Asked(Chosen(act="exported the record"), 1, 100),
    "long ago": Asked(Chosen(until=LONG_AGO), 25, 100),
    "between": Asked(Chosen(since=LONG_AGO, until=LONG_AGO + timedelta(minutes=10)), 10, 100),
    "what nobody did": Asked(Chosen(act="nothing such"), 0, 100),
    "about nothing there is": Asked(Chosen(entity="installation"), 0, 3 * audit_choice.WINDOW),
    "a person's rare act": Asked(Chosen(person=2, act="exported the record"), 0, 3 * audit_choice.WINDOW),
    "a person's long ago": Asked(Chosen(person=2, until=LONG_AGO), 2, 100),
}


@pytest.mark.parametrize("asked", PAGES.values(), ids=PAGES)
def test_a_page_costs_no_more_than_its_window(history: Ledger, asked: Asked) -> None:
    page, read = counted(history, lambda tx: views_audit.entries(tx, EVE, asked.chosen))
    assert len(page.entries) == asked.entries and read <= asked.read_max


def test_a_deep_page_costs_what_the_first_costs(history: Ledger) -> None:
    place = (NOW - timedelta(minutes=HISTORY // 2), 10**9)
    page, read = counted(history, lambda tx: views_audit.entries(tx, EVE, Chosen(), after=place))
    assert len(page.entries) == 25 and read <= 100


def test_the_words_for_acts_cost_a_look_each(history: Ledger) -> None:
    acts, read = counted(history, views_audit.acts)
    assert acts == ["closed by policy", "exported the record", "new"] and read < 20


def test_how_the_record_stands_costs_nothing(history: Ledger) -> None:
    stands, read = counted(history, views_audit.standing)
    assert stands.sealed == HISTORY and read < 5
    people, read = counted(history, views_audit.people)
    assert people == {2: "ann"} and read < 20


def test_no_page_sorts_or_scans_the_record(history: Ledger) -> None:
    for chosen in (Chosen(), Chosen(person=2), Chosen(act="closed by policy"), Chosen(outcome="refused")):
        looked = audit_choice.window(chosen, None)
        statement = audit_choice.page(looked, chosen, 26).compile(
            dialect=sa.dialects.postgresql.dialect(), compile_kwargs={"literal_binds": True}
        )
        found = plan(history, str(statement).replace(":", "\\:"))
        assert "audit" not in found.scanned_whole and found.thrown_away < 100
