"""The failure table's rows on acceptance, with real receivers that are really killed."""

from __future__ import annotations

import itertools
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.failures.house import House, event, status, until
from tests.ports import free_ports


def test_inb_01_the_same_event_one_after_another_and_20_and_50_times_at_the_same_instant(
    chain: House,
) -> None:
    """In four receivers, with others among them."""
    ports = free_ports(4)
    for port in ports:
        chain.receiver(port=port)
    copied = {event("order.placed"): times for times in (2, 20, 50)}
    others = [event("order.placed") for _ in range(30)]
    in_turn, *at_once = [(body, times) for (_, body), times in copied.items()]
    assert [chain.post(in_turn[0], port) for port in ports[: in_turn[1]]] == [200, 200]
    bodies = [body for body, times in at_once for _ in range(times)] + [body for _, body in others]
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(chain.post, bodies, itertools.cycle(ports)))
    assert answers == [200] * 100
    assert chain.value("SELECT count(*) FROM nottwice.events") == 33
    assert chain.value("SELECT sum(deliveries) FROM nottwice.duplicates") == 1 + 19 + 49
    chain.worker()
    until(lambda: chain.value("SELECT count(*) FROM nottwice.events WHERE state = 'completed'") == 33)
    assert chain.value("SELECT count(*) FROM public.effects") == 33
    assert [chain.effects(key) for key, _ in copied] == [1, 1, 1]


def test_distinct_event_types_for_the_same_message_are_distinct_events(chain: House) -> None:
    chain.receiver()
    key, body = event("message.received")
    assert chain.post(body) == 200
    assert chain.post(event("message.junk", key)[1]) == 200
    assert chain.value("SELECT count(*) FROM nottwice.events") == 2


@pytest.mark.parametrize("point", ["receiver.before_insert", "receiver.before_commit"])
def test_inb_04_crash_before_the_accepting_commit(chain: House, point: str) -> None:
    process = chain.receiver(fault=f"{point}=kill")
    key, body = event("order.placed")
    assert chain.post(body) == 0
    assert process.wait(40) == -signal.SIGKILL
    assert chain.state(key) is None
    chain.receiver()
    assert chain.post(body) == 200
    assert chain.value("SELECT count(*) FROM nottwice.events") == 1


def test_inb_04_crash_after_the_commit_before_the_answer(chain: House) -> None:
    process = chain.receiver(fault="receiver.after_commit=kill")
    key, body = event("order.placed")
    assert chain.post(body) == 0
    assert process.wait(40) == -signal.SIGKILL
    assert chain.state(key) == "pending"
    chain.receiver()
    assert chain.post(body) == 200
    chain.worker()
    until(lambda: chain.state(key) == "completed")
    assert chain.effects(key) == 1


def test_the_database_cannot_be_opened(chain: House) -> None:
    (port,) = free_ports(1)
    chain.start(
        "ledger.receiver",
        DATABASE_URL="postgresql+psycopg://nobody@127.0.0.1:1/nowhere",
        NOTTWICE_RECEIVER_PORT=str(port),
    )
    until(lambda: status(port, "/healthz") == 200)
    assert status(port, "/readyz") == 503
    assert chain.post(event("order.placed")[1], port) == 503
