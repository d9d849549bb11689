"""A database's connections and their end."""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from ledger.database import Database, Transaction, sqlstate
from ledger.errors import Unavailable
from tests.fix_proxy import Proxy, between

WITHIN_S = 40.0
MORE_THAN_A_LINE_HOLDS = 40_000_000  # bytes: both ends' buffers are smaller


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


def test_a_silent_line_is_bounded_by_options_of_our_end(database_url: str) -> None:
    """libpq sets them on its socket; the server, and a pooler on the way, hear of none of them."""
    over_tcp = sa.make_url(database_url).set(host="127.0.0.1", port=1, query={"keepalives_idle": "77"})
    watched = Database(over_tcp, silence_s=6.0)
    asked: list[dict[str, Any]] = []
    sa.event.listen(watched.engine, "do_connect", lambda _d, _r, _args, options: asked.append(options))
    with pytest.raises(Unavailable), watched.transaction():
        pass
    given = psycopg.conninfo.conninfo_to_dict("", **asked[0])
    silence = {name: given[name] for name in given if name.startswith(("tcp_", "keepalives"))}
    assert {name: int(value) for name, value in silence.items()} == {
        "tcp_user_timeout": 6000,
        "keepalives_idle": 77,  # the URL's own
        "keepalives_interval": 2,
        "keepalives_count": 2,
    }
    assert "options" not in given


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such bound on what was sent")
def test_what_the_line_does_not_take_is_not_waited_for(database_url: str) -> None:
    with between(database_url) as (proxy, through):
        database = Database(through, silence_s=0.5)
        in_the_end = threading.Timer(WITHIN_S, proxy.takes.set)  # without a bound it is waited for until then
        in_the_end.start()
        with pytest.raises(Unavailable):
            database.run(partial(_send_into_the_void, proxy))
        in_the_end.cancel()
        proxy.takes.set()
        assert database.run(lambda tx: tx.one("SELECT 1"))[0] == 1
        database.close()


def _send_into_the_void(proxy: Proxy, tx: Transaction) -> None:
    tx.one("SELECT 1")
    proxy.takes.clear()
    tx.one("SELECT length(:text)", text="x" * MORE_THAN_A_LINE_HOLDS)


def test_a_transaction_begins_with_its_own_settings(database: Database) -> None:
    """In one go with them, read committed, and they end with it; an error is what it is everywhere else."""
    settings = "SELECT set_config('lock_timeout', '1234ms', true)"
    asked = (
        "SELECT current_setting('lock_timeout') AS wait, current_setting('transaction_isolation') AS level"
    )
    with database.transaction() as tx:
        tx.begin(settings)
        assert tuple(tx.one(asked)) == ("1234ms", "read committed")
    assert database.run(lambda tx: tx.one(asked)).wait != "1234ms"
    with pytest.raises(DBAPIError) as wrong:
        database.run(lambda tx: tx.begin("SELECT set_config('lock_timeout', 'soon', true)"))
    assert sqlstate(wrong.value) == "22023"
    assert database.run(lambda tx: tx.one("SELECT 1 AS n")).n == 1
