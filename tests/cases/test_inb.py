"""Cases from the field about a durable inbox: many at the same instant, and deaths at every step: INB."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests import fix_receiver as fix
from tests.cases.conftest import Work
from tests.fix_receiver import Door, Receiver, Start, until

ROUNDS = 20


def event(key: Any, **members: Any) -> bytes:
    return json.dumps({"id": key, "type": "t", **members}).encode()


class Crowd:
    """As many threads as there are bodies, kept for all rounds and released together."""

    def __init__(self, targets: Sequence[Receiver], size: int) -> None:
        self._targets, self._pool, self._barrier = targets, ThreadPoolExecutor(size), threading.Barrier(size)

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def post(self, bodies: Sequence[bytes]) -> Counter[int]:
        return Counter(self._pool.map(self._post, range(len(bodies)), bodies))

    def _post(self, number: int, body: bytes) -> int:
        headers, port = fix.shop(body), self._targets[number % len(self._targets)].port
        self._barrier.wait(fix.WITHIN_S)
        return fix.quick_post(port, "shop", body, headers)


@pytest.fixture(scope="module")
def four(
    shared_door: Door, tmp_path_factory: pytest.TempPathFactory, unused_ports: Callable[[int], list[int]]
) -> Iterator[list[Receiver]]:
    """Processes on one database."""
    url = shared_door.receiver.environment["DATABASE_URL"]
    with fix.starter(tmp_path_factory.mktemp("four"), url, unused_ports) as start:
        yield [shared_door.receiver, start(), start(), start()]


REPLY = """
handlers.apply("shop", "t")(lambda tx, event, propose: propose(
    "reply", f"one:{event.event_key}", Email(to=("a@example.com",), subject="One", text="x", inbox="i")))
"""


def test_inb_01_fifty_copies_at_the_same_instant(door: Door, four: list[Receiver]) -> None:
    """50 threads, 4 processes: one row a key, every sender answered 2xx, every copy counted."""
    with Crowd(four, 50) as crowd:
        for round_ in range(ROUNDS):
            assert crowd.post([event(round_)] * 50) == {202: 50}
    assert door.count("events") == ROUNDS
    assert _copies(door) == {f"t {round_}": 49 for round_ in range(ROUNDS)}


def test_inb_01_fifty_copies_among_fifty_others(door: Door, four: list[Receiver], work: Work) -> None:
    with Crowd(four, 100) as crowd:
        for round_ in range(ROUNDS):
            mixed = [body for n in range(50) for body in (event(f"{round_} {n}"), event(f"{round_} same"))]
            assert crowd.post(mixed) == {202: 100}
    assert door.count("events") == ROUNDS * 51
    assert _copies(door) == {f"t {round_} same": 49 for round_ in range(ROUNDS)}
    assert door.rows("SELECT sum(n) FROM nottwice.counters WHERE metric = 'duplicate'") == [(ROUNDS * 49,)]
    work('handlers.apply("shop", "t")(lambda tx, event, propose: None)')
    done = "SELECT coalesce(sum(n), 0) FROM nottwice.counters WHERE metric = 'completed'"
    until(lambda: door.rows(done)[0][0] >= ROUNDS * 51)
    assert door.rows(done) == [(ROUNDS * 51,)]  # one job each
    assert door.rows("SELECT DISTINCT state FROM nottwice.events") == [("completed",)]


def _copies(door: Door) -> dict[str, int]:
    """Of each event that has some."""
    return dict(
        door.rows(
            """SELECT event_key, CAST(sum(deliveries) AS integer)
               FROM nottwice.duplicates JOIN nottwice.events ON id = event_id GROUP BY event_key"""
        )
    )


KILLS = {
    "receiver.before_insert": (False, False),
    "receiver.before_commit": (False, False),
    "receiver.after_commit": (False, True),
    "receiver.after_answer": (True, True),
}


def test_inb_04_killed_at_every_step_and_redelivered(door: Door, door_receivers: Start, work: Work) -> None:
    """One row, a 2xx, and one job that is completed, wherever the receiver died."""
    for point, (is_answered, is_stored) in KILLS.items():
        doomed = door_receivers(NOTTWICE_FAULT=f"{point}=kill")
        assert _status(doomed, event(point)) == (202 if is_answered else 0)
        assert doomed.process.wait(fix.WITHIN_S) == -signal.SIGKILL
        stored = door.rows("SELECT state FROM nottwice.events WHERE event_key = %s", f"t {point}")
        assert stored == [("pending",)] * int(is_stored)
        assert door.receiver.shop(event(point)) == 202
    said = [note["became"] for note in door.receiver.noted("stored", 4)]
    assert said == ["accepted", "accepted", "duplicate", "duplicate"]
    work(REPLY)
    until(lambda: door.rows("SELECT DISTINCT state FROM nottwice.events") == [("completed",)])
    assert [door.receiver.shop(event(point)) for point in KILLS] == [202] * 4
    assert (door.count("events"), door.count("actions")) == (4, 4)


def _status(receiver: Receiver, body: bytes) -> int:
    """0 for a line that was cut without an answer."""
    try:
        return receiver.shop(body)
    except httpx.TransportError:
        return 0


BACKLOG = """
WITH flood AS (
    INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest)
    SELECT 'acme', 'shop', 't', 'f ' || n, sha256(convert_to('flood ' || n, 'UTF8')), sha256('x') FROM generate_series(1, 5000) AS n
    RETURNING id)
INSERT INTO nottwice.event_contents (event_id, body) SELECT id, '{}' FROM flood
"""
UNHURRIED = """
import time
for source, type_ in (("shop", "t"), ("plain", "note")):
    handlers.on(source, type_)(lambda event: time.sleep(0.01)).apply(lambda tx, event, prepared, propose: None)
"""
PASSED_BY = """
SELECT count(*) FROM nottwice.events quiet JOIN nottwice.events flood ON flood.ended_at BETWEEN quiet.accepted_at AND quiet.ended_at
WHERE quiet.namespace = 'plain' AND flood.namespace = 'acme' GROUP BY quiet.id
"""


def test_inb_09_one_noisy_tenant_holds_up_no_other(door: Door, work: Work) -> None:
    """A has thousands waiting and sends on; each event of B is worked next, not behind them."""
    door.rows(BACKLOG)
    work(UNHURRIED)
    until(lambda: door.rows("SELECT count(*) > 0 FROM nottwice.events WHERE state = 'completed'")[0][0])
    for n in range(5):
        assert {door.receiver.shop(event(f"{n} {more}")) for more in range(10)} == {202}
        assert door.receiver.plain(b"{}", f"e{n}") == 200
    quiet = "SELECT count(*) FROM nottwice.events WHERE namespace = 'plain' AND state = 'completed'"
    until(lambda: door.rows(quiet) == [(5,)])
    assert door.rows("SELECT count(*) > 500 FROM nottwice.events WHERE state = 'pending'") == [(True,)]
    assert max((n for (n,) in door.rows(PASSED_BY)), default=0) < 200
