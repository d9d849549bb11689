"""Everything goes through a real PgBouncer in transaction mode: no transaction counts on the connection of another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from ledger.awake import as_viewer
from ledger.database import Database, Transaction
from ledger.views import status
from tests.fix_pooler import POOL, Through
from tests.fix_receiver import Rows, Start, until
from tests.fix_sandbox import Sandbox
from tests.fix_worker import PROVIDER, Workshop
from tests.worker.test_daemon_work import SALE

EVENTS = [b'{"id":"%d","type":"sale"}' % n for n in range(40)]
SENDS = 5
ON_THE_SERVER = """
SELECT usename, count(*) FROM pg_stat_activity
WHERE datname = current_database() AND usename IN ('nottwice_receiver', 'nottwice_worker') GROUP BY usename
"""


def test_behind_pgbouncer_in_transaction_mode_each_event_is_worked_once_and_each_mail_sent_once(
    workshop: Workshop,
    receivers: Start,
    sandbox: Sandbox,
    propose_one: Callable[..., int],
    through_pgbouncer: Through,
    rows: Rows,
) -> None:
    receiver = receivers(DATABASE_URL=through_pgbouncer("nottwice_receiver"))
    workshop.url = through_pgbouncer("nottwice_worker")
    worker = workshop.start(SALE, more=PROVIDER.format(url=sandbox.url, timeout_s=5.0))
    for n in range(SENDS):
        propose_one(f"receipt:{n}")
    with ThreadPoolExecutor(16) as senders:
        assert set(senders.map(receiver.shop, EVENTS * 3)) == {202}
    workshop.until("SELECT bool_and(state = 'sent') FROM nottwice.actions")
    workshop.until("SELECT bool_and(state = 'completed') FROM nottwice.events")
    until(
        lambda: all(n <= POOL for _, n in rows(ON_THE_SERVER))
    )  # fewer than come to the pooler, once what it let go has ended
    assert len(workshop.effects()) == len(set(workshop.effects())) == len(EVENTS)
    assert rows("SELECT sum(deliveries) FROM nottwice.duplicates") == [(2 * len(EVENTS),)]
    assert len(sandbox.mails) == SENDS
    assert [counted(through_pgbouncer)[kind] for kind in ("workers", "receivers")] == [1, 1]
    worker.popen.terminate()
    assert (worker.ended(), receiver.stop()) == (0, 0)


def counted(through_pgbouncer: Through) -> dict[str, Any]:
    """What waits and who lives, as the console reads it: its rights hold for one transaction."""

    def look(tx: Transaction) -> dict[str, Any]:
        as_viewer(tx)
        return status.alive(tx)

    with closing(Database(through_pgbouncer("nottwice_console"))) as door:
        return door.run(look)
