"""The chain: sealed right after the commit, in an order that nobody can argue with, at a price that stays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import psycopg
import pytest

from ledger import audit, seals
from ledger.database import Database, Transaction
from ledger.embedded import Cluster
from ledger.schema import migrate
from tests.fix_events import Ledger
from tests.fix_sends import Sends
from tests.ledger.test_plans_events import plan, rolled_back

HISTORY = 100_000
ENTRY = "INSERT INTO nottwice.audit (role, act, entity, entity_id, outcome) VALUES ('policy', '{}', 'action', {}, 'refused')"


def entries(sends: Sends, n: int) -> list[int]:
    act = sends.act(sends.person("Ann"))
    return [
        sends.decide(act, lambda tx, i=i: audit.refused(tx, act, "try", "action", i, "no"))  # type: ignore[misc]
        for i in range(1, n + 1)
    ]


def chained(sends: Sends) -> list[str]:
    sql = "SELECT a.act FROM nottwice.audit_seals s JOIN nottwice.audit a ON a.id = s.audit_id ORDER BY s.sequence"
    return [row.act for row in sends.rows(sql)]


def test_entries_are_sealed_a_batch_at_a_time_and_once(sends: Sends) -> None:
    entries(sends, 5)
    assert sends.by_worker.run(lambda tx: seals.seal(tx, 3)) == 3
    assert sends.by_worker.run(seals.seal) == 2
    assert sends.by_worker.run(seals.seal) == 0
    assert sends.rows("SELECT FROM nottwice.audit_unsealed") == []


def test_an_open_transaction_holds_nobody_up_and_comes_last(sends: Sends, database_url: str) -> None:
    """What it wrote is not visible yet: the quick one is sealed at once, and nothing comes before it later."""
    other = Database(database_url)
    try:
        with other.engine.connect() as slow, slow.begin() as open_:
            slow.exec_driver_sql(ENTRY.format("slow", 1))
            sends.sql(ENTRY.format("quick", 2))
            assert sends.by_worker.run(seals.seal) == 1
            open_.commit()
    finally:
        other.close()
    assert sends.by_worker.run(seals.seal) == 1
    assert chained(sends) == ["quick", "slow"]


def test_a_strangers_transaction_elsewhere_on_the_server_holds_nobody_up(
    sends: Sends, cluster: Cluster
) -> None:
    with psycopg.connect(host=str(cluster.socket), port=5432, user="postgres", dbname="postgres") as stranger:
        stranger.execute("SELECT pg_current_xact_id()")  # has a number, as one that writes
        entries(sends, 1)
        assert sends.by_worker.run(seals.seal) == 1
        stranger.rollback()


def test_an_entry_stands_behind_what_its_writer_could_have_seen(sends: Sends, database_url: str) -> None:
    """A transaction that began earlier, and so has the lower number, decides after the other committed."""
    other = Database(database_url)
    try:
        with other.engine.connect() as early, early.begin() as open_:
            early.exec_driver_sql("SELECT pg_current_xact_id()")
            sends.sql(ENTRY.format("seen", 1))
            assert early.exec_driver_sql("SELECT act FROM nottwice.audit").scalar() == "seen"
            early.exec_driver_sql(ENTRY.format("answers", 1))
            open_.commit()
    finally:
        other.close()
    assert sends.by_worker.run(seals.seal) == 2
    assert chained(sends) == ["seen", "answers"]


def test_one_sealer_at_a_time(sends: Sends) -> None:
    entries(sends, 2)
    sends.by_worker.run(seals.seal)
    entries(sends, 2)
    with sends.by_worker.engine.connect() as first, first.begin():
        first.exec_driver_sql("SELECT FROM nottwice.maintenance WHERE duty = 'seal' FOR UPDATE")
        assert sends.by_owner.run(seals.seal) == 0
    assert sends.by_owner.run(seals.seal) == 2


def test_entries_from_before_a_restore_are_sealed(sends: Sends) -> None:
    """A dump keeps the numbers of transactions of the old server; the new one counts from the start."""
    entries(sends, 1)
    sends.sql("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
    sends.sql("UPDATE nottwice.audit SET transaction = '99999999999'")
    assert sends.by_worker.run(seals.seal) == 1


def test_what_waits_too_long_for_its_seal_is_counted(sends: Sends) -> None:
    entries(sends, 2)
    assert sends.by_owner.run(seals.unsealed) == 0
    sends.sql("UPDATE nottwice.audit_unsealed SET since = since - interval '2 min'")
    assert sends.by_owner.run(seals.unsealed) == 2
    sends.by_worker.run(seals.seal)
    assert sends.by_owner.run(seals.unsealed) == 0


def test_a_rolled_back_entry_waits_for_nothing(sends: Sends) -> None:
    with sends.by_owner.engine.connect() as connection:
        connection.exec_driver_sql(ENTRY.format("never", 1))
        connection.rollback()
    assert sends.rows("SELECT FROM nottwice.audit_unsealed") == []


# ── The price ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def long_history(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """100,000 sealed entries, and three that wait."""
    name = f"history_{os.getpid()}_{request.param_index}"
    with psycopg.connect(
        host=str(cluster.socket), port=5432, user="postgres", dbname="postgres", autocommit=True
    ) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        migrate(cluster.url(database=name))
        database = Database(cluster.url(database=name))
        fill(Ledger(database), analyzed=request.param == "analyzed")
        yield Ledger(database)
        database.close()
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def fill(book: Ledger, *, analyzed: bool) -> None:
    for table in ("audit", "audit_seals", "audit_unsealed"):
        book.run(f"ALTER TABLE nottwice.{table} SET (autovacuum_enabled = off)")
    book.run("ALTER TABLE nottwice.audit DISABLE TRIGGER an_audit_row_waits_for_its_seal")
    book.run(
        """INSERT INTO nottwice.audit (role, act, entity, entity_id, outcome)
           SELECT 'policy', 'seen', 'action', n, 'refused' FROM generate_series(1, CAST(:n AS integer)) AS n""",
        n=HISTORY,
    )
    book.run("INSERT INTO nottwice.audit_seals SELECT id, id, '', '' FROM nottwice.audit")
    book.run("ALTER TABLE nottwice.audit ENABLE TRIGGER an_audit_row_waits_for_its_seal")
    for n in range(3):
        book.run(ENTRY.format("new", n))
    if analyzed:
        book.run("ANALYZE nottwice.audit, nottwice.audit_seals, nottwice.audit_unsealed")


def test_sealing_does_not_read_the_history(long_history: Ledger) -> None:
    ids = list(range(HISTORY + 1, HISTORY + 4))
    for sql, values in ((seals.WAITING, {"limit": 500}), (seals.ENTRIES, {"ids": ids})):
        found = plan(long_history, sql, **values)
        assert "audit" not in found.scanned_whole and found.pages < 50


ROWS_READ = """
SELECT CAST(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) AS bigint) AS n
FROM pg_stat_xact_user_tables WHERE relname IN ('audit', 'audit_seals')
"""


def counted(book: Ledger, body: Callable[[Transaction], int]) -> tuple[int, int]:
    """What it returned, and how many rows of the record the server read for it."""

    def between(tx: Transaction) -> tuple[int, int]:
        before = tx.one(ROWS_READ).n
        return body(tx), tx.one(ROWS_READ).n - before

    result: tuple[int, int] = rolled_back(book, between)
    return result


def test_sealing_reads_as_many_rows_as_wait(long_history: Ledger) -> None:
    sealed, read = counted(long_history, seals.seal)
    assert sealed == 3 and 3 <= read < 20


def test_looking_for_what_is_left_unsealed_does_not_read_the_history(long_history: Ledger) -> None:
    assert counted(long_history, lambda tx: seals.unsealed(tx, 0)) == (3, 0)
