"""The transaction by itself: its statements do not grow with the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa

from ledger.database import Database, Transaction
from ledger.inbox import accept
from ledger.receiver.writer import Writer, limits
from ledger.records import AcceptanceKind, Delivery, digest_of
from ledger.settings import load
from tests.fix_events import Ledger, delivery, unusable

PING = ";"  # a look whether the connection lives, which the receiver does without


@pytest.fixture
def statements(database: Database) -> Iterator[list[str]]:
    """Everything that the driver is told, in order, whoever tells it."""
    seen: list[str] = []

    class Told(psycopg.Cursor[Any]):
        def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
            if query != PING:
                seen.append(query)
            return super().execute(query, *args, **kwargs)

    def connected(connection: Any, _: object) -> None:
        connection.cursor_factory = Told

    database.engine.dispose()  # who connects from here on is listened to
    sa.event.listen(database.engine, "connect", connected)
    yield seen
    sa.event.remove(database.engine, "connect", connected)
    database.engine.dispose()
    database.engine.connect().close()  # what comes after meets one that nobody listens to


def test_a_batch_takes_as_many_statements_as_one(
    database: Database, statements: list[str], login_url: Callable[[str], str]
) -> None:
    writer = Writer(database, lock_wait_s=1, statement_s=5)
    counts = []
    for size in (1, 10, 200):
        items = [
            *(delivery(f"{size} {n}") for n in range(size)),
            *(unusable(b"%d %d" % (size, n)) for n in range(size)),
        ]
        statements.clear()
        answers = writer.store(items)
        assert [answer.kind for answer in answers] == [AcceptanceKind.ACCEPTED] * size + [
            AcceptanceKind.QUARANTINED
        ] * size
        fresh = len(statements)
        statements.clear()
        assert {answer.kind for answer in writer.store(items)} == {
            AcceptanceKind.DUPLICATE,
            AcceptanceKind.QUARANTINED,
        }
        counts.append((fresh, len(statements)))
    assert len(set(counts)) == 1 and min(counts[0]) >= 3 and max(counts[0]) <= 10, counts


def test_statements_are_prepared_only_where_no_pooler_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login_url: Callable[[str], str]
) -> None:
    """Behind a pooler in transaction mode the next transaction may meet another connection."""
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", login_url("nottwice_receiver"))
    for direct in (False, True):
        (tmp_path / "nottwice.toml").write_text(f"[database]\ndirect = {str(direct).lower()}\n")
        with closing(load().open_database("receiver", pool_size=1, prepare=True)) as opened:
            writer = Writer(opened, lock_wait_s=1, statement_s=5)
            kinds = [writer.store([delivery(f"{direct} {n}")])[0].kind for n in range(12)]
            assert kinds == [AcceptanceKind.ACCEPTED] * 12
            with opened.transaction() as tx:
                prepared = tx.one("SELECT count(*) AS n FROM pg_prepared_statements").n
            assert (prepared > 0) is direct


def test_rows_are_found_by_key_whatever_a_table_was_like_when_the_plan_was_made(
    book: Ledger, login_url: Callable[[str], str]
) -> None:
    """A plan that is kept may be from a time when the table was one page: it would walk what has grown since."""
    items = [delivery(f"key {n}") for n in range(3)]
    with closing(Database(login_url("nottwice_receiver"), prepare=True)) as database:
        writer = Writer(database, lock_wait_s=1, statement_s=5)
        writer.store([*items, *items])
        for table in ("events", "duplicates", "counters"):
            book.run(f"ANALYZE nottwice.{table}")
        for again in (items, [replace(item, content_digest=digest_of("other")) for item in items]):
            assert database.run(lambda tx, again=again: _walked(tx, again)) == []


def _walked(tx: Transaction, items: list[Delivery]) -> list[str]:
    """The tables of which the transaction that stores these walked all."""
    tx.begin(limits(1, 5))
    accept(tx, items, writer=uuid4())
    seen = tx.all("SELECT relname FROM pg_stat_xact_user_tables WHERE seq_scan > 0 ORDER BY relname")
    return [row.relname for row in seen]
