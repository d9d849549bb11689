"""What a person waits for: `python -m tests.benchmarks.console [EVENTS]`, one JSON object a line for each page.

A console process over a house with a past (100,000 events unless said otherwise, a third of them with a send), a warm
server, and a fresh browser profile each time: from asking for the address until the page's own figures are on
screen, and for lists until the table is drawn. The median of five, in seconds; the processor seconds that console and
browser took, which a busy machine changes less; and the longest of the page's database reads.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import psutil
from playwright.sync_api import Browser

from ledger import schema, views
from ledger.database import Database, Transaction
from ledger.embedded import Cluster
from ledger.records import Role
from ledger.states import EventState
from ledger.views import decided as views_decided
from ledger.views import event as views_event
from ledger.views import events as views_events
from ledger.views import kept as views_kept
from ledger.views import review as views_review
from ledger.views.found import Filter
from tests.browser.stage import browser, console
from tests.fix_seed import House, full
from tests.fix_story import told

EVENTS, ROUNDS, LIMIT_S = 100_000, 5, 1.5
SHOWN = "ready => document.querySelector(ready)?.checkVisibility() && document.querySelector(ready).getBoundingClientRect().height > 0"
KINDS = "(ARRAY['invoice.paid', 'invoice.voided', 'refund', 'dispute', 'payout'])[1 + n % 5]"
PAST = (
    f"""INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, state, ending, due_at, attempts,
                                     accepted_at, ended_at)
        SELECT 'acme', 'shop', {KINDS}, {KINDS} || ' evt_' || md5(CAST(n AS text)), sha256(convert_to('past' || n, 'UTF8')), sha256('x'),
               'completed', 'done', NULL, 1, now() - (:n - n) * interval '1 s', now() - (:n - n) * interval '1 s'
        FROM generate_series(1, CAST(:n AS integer)) AS n""",
    "INSERT INTO nottwice.event_contents SELECT id, 'application/json', convert_to(repeat('x', 900), 'UTF8') FROM nottwice.events",
    "INSERT INTO nottwice.duplicates (event_id, delivery_id, deliveries) SELECT id, 'again', 1 FROM nottwice.events WHERE id % 9 = 0",
    """INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, event_id, provider, account, reference, policy, cost,
                                     content_digest, key_margin_s, evidence_s, retry_until, state, settled_at, message_id, attempts)
       SELECT 'acme', 'past:' || id, sha256(convert_to('past' || id, 'UTF8')), 'receipt', id, 'inboxili', 'inboxili', 'nt', 'review',
              'high', sha256('x'), 900, 300, now(), 'sent', now(), 'm' || id, 1
       FROM nottwice.events WHERE id % 3 = 0""",
    """INSERT INTO nottwice.action_contents SELECT id, convert_to('{}', 'UTF8'), '{somebody@example.com}', 'Receipt'
       FROM nottwice.actions""",
    """INSERT INTO nottwice.action_attempts (action_id, number, token, worker, account, answered_at, outcome, message_id)
       SELECT id, 1, gen_random_uuid(), gen_random_uuid(), account, now(), 'accepted', message_id FROM nottwice.actions""",
    """INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
       SELECT date_trunc('minute', now()) - m * interval '1 min', 'acme', metric, gen_random_uuid(), 60
       FROM generate_series(0, 1439) AS m, unnest(ARRAY['accepted', 'duplicate', 'completed', 'sent']) AS metric,
            generate_series(1, 3)""",
    "VACUUM ANALYZE",
)
PAGES = {
    "a page that reads nothing": ("/me", "[data-testid='stRadio']"),
    "overview": ("/overview", "[data-testid='stMetricValue']"),
    "review": ("/review", "[data-testid='stDataFrame'] canvas"),
    "events": ("/events", "[data-testid='stDataFrame'] canvas"),
    "events, filtered": ("/events?source=shop&type=refund", "[data-testid='stDataFrame'] canvas"),
    "one event": ("/events?event={event}", "ol.nt-line li"),
}


@contextmanager
def house(events: int) -> Iterator[tuple[Cluster, Database, int]]:
    home = Path(tempfile.mkdtemp(prefix="nottwice-bench-", dir="/tmp"))
    home.chmod(0o711)
    server = Cluster(home)
    try:
        server.ensure()
        schema.migrate(server.url())
        database = Database(server.url())
        for sql in PAST[:-1]:
            database.run(
                lambda tx, sql=sql: tx.execute(sql, **({"n": events} if ":n" in sql else {})) and None
            )  # type: ignore[misc]
        made = told(House(database))
        full(House(database))
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(PAST[-1])
        yield server, database, made.done
        database.close()
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def first_figures(started: Browser, address: str, ready: str) -> tuple[float, float]:
    """In a profile that has never seen this console: seconds, and processor seconds of console and browser."""
    used_s = _processor_s()
    view = started.new_context(viewport={"width": 1280, "height": 800})
    page = view.new_page()
    began = time.monotonic()
    page.goto(address, wait_until="commit")
    page.wait_for_function(
        SHOWN, arg=ready, polling="raf", timeout=30_000
    )  # `wait_for` looks twice a second only
    took = time.monotonic() - began, _processor_s() - used_s
    view.close()
    return took


def _processor_s() -> float:
    """Of all that we started, so far."""
    total = 0.0
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += sum(child.cpu_times()[:2])
    return total


READS: dict[str, tuple[Callable[[Transaction], object], ...]] = {
    "a page that reads nothing": (lambda tx: tx.one("SELECT 1"),),
    "overview": (lambda tx: views.snapshot(tx, silent_s=60), lambda tx: views.hour(tx, lease_s=60)),
    "review": (
        views_review.sizes,
        lambda tx: views_review.queue(tx, "uncertain", most=26),
        views_decided.today,
    ),
    "events": (
        lambda tx: views_events.events(tx, Filter()),
        lambda tx: views_events.count(tx, Filter()),
        views_events.sources,
        views_kept.sizes,
    ),
    "events, filtered": (
        lambda tx: views_events.events(tx, Filter(source="shop", type="refund")),
        lambda tx: views_events.count(tx, Filter(source="shop", type="refund")),
        lambda tx: views_events.count(tx, Filter(state=EventState.COMPLETED)),
        lambda tx: views_events.events(tx, Filter("evt_1", source="shop")),
        lambda tx: views_events.count(tx, Filter("evt_1")),
    ),
    "one event": (lambda tx: views_event.story(tx, 300),),
}


def longest_read_s(database: Database, reads: tuple[Callable[[Transaction], object], ...]) -> float:
    """The slowest of a page's reads, each by its median of five, as a support person's role."""
    return max(median(_timed(database, read) for _ in range(ROUNDS)) for read in reads)


def _timed(database: Database, read: Callable[[Transaction], object]) -> float:
    def bounded(tx: Transaction) -> object:
        with views_events.within(tx, 30.0):
            return read(tx)

    began = time.perf_counter()
    database.run(bounded, role=Role.SUPPORT)
    return time.perf_counter() - began


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    with (
        house(events) as (server, database, event),
        browser() as started,
        console(server.url("nottwice_console")) as url,
    ):
        for name, (path, ready) in PAGES.items():
            address = url + path.format(event=event)
            first_figures(started, address, ready)  # warms the server
            rounds = [first_figures(started, address, ready) for _ in range(ROUNDS)]
            line = {
                "bench": "first figures",
                "page": name,
                "events": events,
                "ours": round(median(took_s for took_s, _ in rounds), 3),
                "unit": "s",
                "limit": LIMIT_S,
                "processor, s": round(median(used_s for _, used_s in rounds), 2),
                "longest read, s": round(longest_read_s(database, READS[name]), 4),
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
