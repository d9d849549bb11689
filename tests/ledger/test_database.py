"""A database's connections and their end."""

from __future__ import annotations

import pytest

from ledger.database import Database


@pytest.mark.parametrize("opened", ["before", "after"])
def test_a_connection_given_back_after_the_end_is_closed(database_url: str, opened: str) -> None:
    database = Database(database_url, pool_size=1)
    if opened == "after":
        database.close()
    with database.transaction() as tx:
        tx.execute("SELECT 1")
        raw = tx.connection.connection.driver_connection
        if opened == "before":
            database.close()
        assert raw is not None and not raw.closed
    assert raw.closed
