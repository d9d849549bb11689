"""The chain: sealed right after the commit, in an order that nobody can argue with, at a price that stays."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from ledger import audit
from ledger.audit import check as audit_check
from ledger.audit import seals
from ledger.database import Database
from ledger.embedded import Cluster
from ledger.records import Act
from tests.fix_sends import Sends

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


def test_writers_and_sealers_side_by_side_leave_a_whole_chain(sends: Sends) -> None:
    """Four people write, two sealers race; each entry is sealed once, in the order of what its writer could see."""
    acts = [sends.act(sends.person(name)) for name in ("Ann", "Bo", "Cy", "Di")]

    def write(act: Act) -> None:
        for n in range(25):
            sends.decide(act, lambda tx, n=n: audit.refused(tx, act, "try", "action", n, "no"))  # type: ignore[misc]

    def seal_until(done: Callable[[], bool]) -> None:
        while not done() or sends.rows("SELECT FROM nottwice.audit_unsealed"):
            sends.by_worker.run(lambda tx: seals.seal(tx, 7))

    with ThreadPoolExecutor(6) as pool:
        writers = [pool.submit(write, act) for act in acts]
        sealers = [pool.submit(seal_until, lambda: all(one.done() for one in writers)) for _ in range(2)]
        for one in (*writers, *sealers):
            one.result(40)
    found = audit_check.verify(sends.by_owner.run)
    assert (found.entries, found.broken) == (100, None)
    for act in acts:
        order = sends.rows(
            """SELECT a.entity_id FROM nottwice.audit_seals s JOIN nottwice.audit a ON a.id = s.audit_id
               WHERE a.person_id = :person ORDER BY s.sequence""",
            person=act.person.id,
        )
        assert [row.entity_id for row in order] == list(range(25))
