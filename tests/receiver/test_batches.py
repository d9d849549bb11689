"""Many at once, over real HTTP and real processes: races, bursts, hanging keys, and trouble in the database."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from ledger.receiver.lane import ENOUGH
from ledger.records import digest_of
from tests import fix_receiver as fix
from tests.fix_receiver import Receiver, Rows, Start, until


def event(key: Any, **members: Any) -> bytes:
    return json.dumps({"id": key, "type": "t", **members}).encode()


def test_copies_that_meet_by_their_occurrence(receivers: Start, rows: Rows) -> None:
    """Twenty event ids for one message, everywhere at once: neither two rows nor a deadlock that anybody sees."""
    two = [receivers(), receivers()]
    for round_ in range(5):
        bodies = [fix.message(f"evt_{round_}_{n}", message_id=f"<m{round_}@x>") for n in range(20)]
        with ThreadPoolExecutor(20) as pool:
            assert set(pool.map(Receiver.mail, two * 10, bodies)) == {200}
    assert rows("SELECT count(*) FROM nottwice.events") == [(5,)]


def test_as_many_as_a_batch_is_worth_wait_for_nobody(receivers: Start, rows: Rows) -> None:
    """Fewer wait for others, here until they would be refused; these are stored at once, in one transaction."""
    receiver = receivers(fix.CONFIG + "[receiver]\nbatch_wait_s = 60\nanswer_within_s = 30\n")
    with ThreadPoolExecutor(ENOUGH) as pool:
        assert set(pool.map(lambda n: receiver.shop(event(n)), range(ENOUGH))) == {202}
    assert rows("SELECT count(*), count(DISTINCT xmin::text) FROM nottwice.events") == [(ENOUGH, 1)]


# ── a burst larger than the pool ──────────────────────────────────────────────────────────────────────


def test_dbx_06_a_burst_larger_than_the_pool(receivers: Start, rows: Rows) -> None:
    receiver = receivers(fix.CONFIG + "[receiver]\nwriters = 1\nbatch_max = 10\nanswer_within_s = 25\n")
    for round_ in range(10):
        with ThreadPoolExecutor(100) as pool:
            answers = Counter(pool.map(lambda n, r=round_: _one_of_a_burst(receiver, r, n), range(100)))
        assert answers == {202: 60, 400: 30, 0: 10}
    assert rows("SELECT count(*) FROM nottwice.events WHERE event_key LIKE 't b%%'") == [(301,)]
    until(lambda: set(rows(CONNECTIONS)) == {("idle",)})  # those that hung up are stored too
    assert len(rows(CONNECTIONS)) <= 3
    assert receiver.shop(event("next")) == 202


CONNECTIONS = """
SELECT state FROM pg_stat_activity WHERE usename = 'nottwice_receiver' AND datname = current_database()
"""


def _one_of_a_burst(receiver: Receiver, round_: int, number: int) -> int:
    if number < 30:
        return receiver.post("shop", b"{", fix.shop(b"{")).status_code
    if number < 60:
        return receiver.shop(event("b same"))
    if number < 90:
        return receiver.shop(event(f"b {round_} {number}"))
    _hang_up_after_sending(receiver.port, event(f"gone {round_} {number}"))
    return 0


def _hang_up_after_sending(port: int, body: bytes) -> None:
    fields = "".join(f"{name}: {value}\r\n" for name, value in fix.shop(body).items())
    with socket.create_connection(("127.0.0.1", port), timeout=40) as line:
        head = f"POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{fields}\r\n"
        line.sendall(head.encode() + body)


def test_a_full_queue_answers_503_at_once(receivers: Start, database_url: str) -> None:
    """While those in the queue still wait for what is ahead of them: not when their time is over."""
    limits = "[receiver]\nwriters = 1\nbatch_max = 1\nqueue_max = 5\nlock_wait_s = 60\nanswer_within_s = 60\n"
    receiver = receivers(fix.CONFIG + limits)
    with ThreadPoolExecutor(40) as pool:
        with held_key(database_url, "held"):
            waiting = [pool.submit(receiver.shop, event("held"))]
            _until_waiting_for_a_lock(database_url)
            waiting += [pool.submit(receiver.shop, event(number)) for number in range(30)]
            until(lambda: sum(answer.done() for answer in waiting) == 25)
            refused = [answer for answer in waiting if answer.done()]
        assert [answer.result() for answer in refused] == [503] * 25
        assert [answer.result() for answer in waiting if answer not in refused] == [202] * 6


# ── a hanging key ─────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def held_key(database_url: str, key: str) -> Iterator[psycopg.Connection[Any]]:
    """Another transaction has inserted this event of the shop and does not end."""
    url = sa.make_url(database_url)
    with psycopg.connect(
        host=str(url.query["host"]), port=5432, user=url.username, dbname=url.database
    ) as other:
        other.execute(
            """INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest)
               VALUES ('acme', 'shop', 't', %s, %s)""",
            (f"t {key}", digest_of("generic", "shop", "t", key)),
        )
        yield other
        other.rollback()


def _until_waiting_for_a_lock(database_url: str) -> None:
    url = sa.make_url(database_url)
    with psycopg.connect(
        host=str(url.query["host"]), port=5432, user=url.username, dbname=url.database, autocommit=True
    ) as admin:
        deadline = time.monotonic() + fix.WITHIN_S
        sql = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        while not admin.execute(sql).rowcount:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_hanging_key_slows_nobody_else(receivers: Start, database_url: str, rows: Rows) -> None:
    """One wait tells that it hangs. From then on it waits apart, with all that comes for it: nobody else waits."""
    limits = "[receiver]\nlock_wait_s = 0.1\nside_wait_s = 60\nside_lane_s = 60\nwriters = 2\n"
    receiver = receivers(fix.CONFIG + limits)
    with ThreadPoolExecutor(20) as pool:
        with held_key(database_url, "h"):
            hanging = [pool.submit(receiver.shop, event("h"))]
            receiver.noted("a lock hangs")
            hanging += [pool.submit(receiver.shop, event("h")) for _ in range(6)]
            assert set(pool.map(receiver.shop, map(event, range(60)))) == {202}
            assert rows(WAITING) == [(1,)]
        assert {done.result() for done in hanging} <= {202, 503}
    assert len(receiver.notes("a lock hangs")) == 1
    assert receiver.shop(event("h")) == 202
    assert rows("SELECT count(*) FROM nottwice.events WHERE event_key = 't h'") == [(1,)]


WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
"""


def test_a_key_that_hangs_too_long_is_answered_503_and_its_repeat_is_stored(
    receivers: Start, database_url: str, rows: Rows
) -> None:
    receiver = receivers(
        fix.CONFIG + "[receiver]\nlock_wait_s = 0.05\nside_wait_s = 0.1\nanswer_within_s = 0.6\n"
    )
    with held_key(database_url, "held"):
        assert receiver.shop(event("held")) == 503
    until(lambda: receiver.shop(event("held")) == 202)
    assert rows("SELECT count(*) FROM nottwice.events") == [(1,)]


# ── trouble in the database ───────────────────────────────────────────────────────────────────────────

TROUBLE = """
CREATE SEQUENCE nottwice.trouble;
CREATE FUNCTION nottwice.trouble() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS $$
BEGIN
    IF {when} THEN
        RAISE EXCEPTION 'made by a test' USING errcode = '{errcode}';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER trouble BEFORE INSERT ON nottwice.events FOR EACH ROW EXECUTE FUNCTION nottwice.trouble();
"""


def make_trouble(rows: Rows, errcode: str, when: str = "true") -> None:
    rows(TROUBLE.format(errcode=errcode, when=when))


def test_a_full_disk_is_the_fault_of_none_of_a_batch(receiver: Receiver, rows: Rows) -> None:
    make_trouble(rows, "53100")
    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(lambda n: receiver.shop(event(n)), range(10))) == {503}
    assert receiver.client.get("/healthz").status_code == 200
    rows("DROP TRIGGER trouble ON nottwice.events")
    assert [receiver.shop(event(n)) for n in range(10)] == [202] * 10
    assert rows("SELECT count(*) FROM nottwice.events") == [(10,)]


@pytest.mark.parametrize("errcode", ["40001", "40P01"])
def test_dbx_03_serialization_failures_and_deadlocks_are_tried_again(
    receiver: Receiver, rows: Rows, errcode: str
) -> None:
    make_trouble(rows, errcode, when="nextval('nottwice.trouble') <= 2")
    assert receiver.shop(event(1)) == 202
    assert rows("SELECT count(*) FROM nottwice.events") == [(1,)]


def test_one_that_the_database_cannot_hold_is_quarantined_and_its_neighbours_are_stored(
    receivers: Start, rows: Rows
) -> None:
    """Halved until it stands alone: a 503 would bring it back for days."""
    receiver = receivers(fix.CONFIG + "[receiver]\nbatch_wait_s = 0.1\n")
    make_trouble(rows, "22P05", when="NEW.event_key = 't bad'")
    keys = [*range(20), "bad", *range(20, 40)]
    with ThreadPoolExecutor(41) as pool:
        assert set(pool.map(lambda key: receiver.shop(event(key)), keys)) == {202}
    assert rows("SELECT count(*) FROM nottwice.events") == [(40,)]
    assert rows("SELECT reason, body FROM nottwice.quarantine") == [
        ("The database cannot hold it as an event.", event("bad"))
    ]


def test_an_unknown_error_about_one_is_503_for_that_one_alone(receivers: Start, rows: Rows) -> None:
    receiver = receivers(fix.CONFIG + "[receiver]\nbatch_wait_s = 0.1\n")
    make_trouble(rows, "P0001", when="NEW.event_key = 't bad'")
    keys = [*range(10), "bad"]
    with ThreadPoolExecutor(11) as pool:
        answers = dict(zip(keys, pool.map(lambda key: receiver.shop(event(key)), keys), strict=True))
    assert answers.pop("bad") == 503 and set(answers.values()) == {202}


def test_a_connection_that_breaks_in_the_transaction_is_tried_again(receivers: Start, rows: Rows) -> None:
    """Whether it had committed or not: the same write meets its own rows."""
    receiver = receivers(NOTTWICE_FAULT="receiver.before_commit=sleep:0.5@1")
    answers: list[int] = []
    post = threading.Thread(target=lambda: answers.append(receiver.shop(event(1))))
    post.start()
    killed = 0
    while post.is_alive() and not killed:
        killed = rows(
            """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE usename = 'nottwice_receiver' AND datname = current_database() AND state = 'idle in transaction'"""
        )[0][0]
        time.sleep(0.01)
    post.join(fix.WITHIN_S)
    assert killed == 1 and answers == [202]
    assert rows("SELECT count(*) FROM nottwice.events") == [(1,)]


def test_durable_and_read_committed_whatever_the_databases_default(
    receivers: Start, database_url: str, rows: Rows
) -> None:
    """Where everything else is serializable, read-only and not durable: 20 copies at once are one event."""
    name = sa.make_url(database_url).database
    for setting in ("transaction_isolation = 'serializable'", "transaction_read_only = on"):
        rows(f"ALTER DATABASE {name} SET default_{setting}")
    rows(f"ALTER DATABASE {name} SET synchronous_commit = off")
    rows("CREATE TABLE nottwice.seen (durable text, isolation text, role text)")
    rows(
        """CREATE FUNCTION nottwice.look() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN
           INSERT INTO nottwice.seen VALUES (current_setting('synchronous_commit'), current_setting('transaction_isolation'),
                                             session_user);
           RETURN NEW; END $$"""
    )
    rows("CREATE TRIGGER look BEFORE INSERT ON nottwice.events FOR EACH ROW EXECUTE FUNCTION nottwice.look()")
    receiver = receivers()
    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(receiver.shop, [event(1)] * 20)) == {202}
    assert rows("SELECT count(*) FROM nottwice.events") == [(1,)]
    assert rows("SELECT DISTINCT durable, isolation, role FROM nottwice.seen") == [
        ("on", "read committed", "nottwice_receiver")
    ]
