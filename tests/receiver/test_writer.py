"""The transaction by itself: its statements do not grow with the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from ledger.database import Database
from ledger.receiver.writer import Writer
from ledger.records import AcceptanceKind
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
