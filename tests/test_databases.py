"""What is lent to a test is as new, whatever the tests before it did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from ledger.database import Database
from ledger.embedded import Cluster
from tests.databases import CATALOGS, SPARES, TOUCHED, YOUNGEST, Databases, connected
from tests.fix_events import Ledger

AS_NEW = (
    CATALOGS[: CATALOGS.index(" FROM pg_database")].replace(YOUNGEST, "0") + " FROM pg_database d"
    " WHERE datname = current_database()"
)
PLANNED = """
    SELECT relname, relpages, reltuples FROM pg_class
    WHERE relnamespace = 'nottwice'::regnamespace AND relkind = 'r' ORDER BY 1"""


@pytest.fixture
def lender(cluster: Cluster) -> Iterator[Databases]:
    made = Databases(cluster)
    yield made
    made.close()


def lent(lender: Databases, *deeds: str) -> tuple[int, object, object, object]:
    """One loan: the first event's id, then what the catalogs, the tables and the planner knew before."""
    with lender.lent() as url:
        database = Database(url)
        book = Ledger(database)
        before = book.rows(AS_NEW), book.rows(TOUCHED), book.rows(PLANNED)
        (event,) = book.stored("a")
        for deed in deeds:
            book.run(deed)
        database.close()
    return event, *before


def test_an_emptied_database_is_as_new(lender: Databases) -> None:
    first, *others = (lent(lender) for _ in range(SPARES + 2))
    assert first[0] == 1 and first[2] == []
    assert all(other == first for other in others)


CHANGES = [
    "CREATE TABLE public.left_over (n int)",
    "CREATE FUNCTION public.left_over() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "ALTER TABLE nottwice.audit DISABLE TRIGGER USER",
    "ALTER TABLE nottwice.events SET (autovacuum_enabled = off)",
    "REVOKE INSERT ON nottwice.events FROM nottwice_receiver",
    "ANALYZE nottwice.events",
    "UPDATE nottwice.installation SET id = gen_random_uuid()",
    "INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest) SELECT 'a', 's', 't', n, sha256(convert_to(n, 'UTF8'))"
    " FROM (SELECT CAST(n AS text) AS n FROM generate_series(1, 20000) AS n) AS _",
]


def test_a_database_that_was_changed_is_not_lent_again(lender: Databases) -> None:
    as_new = lent(lender)
    for deed in CHANGES:
        lent(lender, deed)
        for _ in range(SPARES):  # the last of them would get it
            assert lent(lender) == as_new, deed


def test_a_database_whose_sessions_a_test_ended_is_not_lent_again(lender: Databases) -> None:
    """The server, or a test that plays its end, ends the lender's own sessions too."""
    everybody = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
    first = lent(lender)
    for _ in range(SPARES):
        with lender.lent() as url, lender.opened(url) as database:
            Ledger(database).stored("a")
            with connected(lender.server, "postgres") as admin:
                admin.execute(everybody, [sa.make_url(url).database])
    assert all(lent(lender) == first for _ in range(SPARES + 1))
