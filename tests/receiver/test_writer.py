"""The transaction by itself: its statements do not grow with the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from ledger.database import Database
from ledger.receiver.writer import Writer
from ledger.records import AcceptanceKind
from ledger.settings import load
from tests.fix_events import delivery, unusable


@pytest.fixture
def statements(database: Database) -> Iterator[list[str]]:
    """Everything that is executed, in order."""
    seen: list[str] = []
    listen = lambda _c, _cursor, statement, *_: seen.append(statement)  # noqa: E731
    sa.event.listen(database.engine, "before_cursor_execute", listen)
    yield seen
    sa.event.remove(database.engine, "before_cursor_execute", listen)


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
    assert len(set(counts)) == 1 and max(counts[0]) <= 10, counts


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
