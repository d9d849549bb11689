"""The failure table's rows on acceptance, with real receivers that are really killed."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.failures.house import House, event, free_port, status, until


def test_inb_01_fifty_copies_at_the_same_instant_in_four_receivers(chain: House) -> None:
    ports = [free_port() for _ in range(4)]
    for port in ports:
        chain.receiver(port=port)
    key, body = event("order.placed")
    others = [event("order.placed") for _ in range(50)]
    posts = [(body, ports[i % 4]) for i in range(50)] + [(b, ports[i % 4]) for i, (_, b) in enumerate(others)]
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda post: chain.post(*post), posts))
    assert answers == [200] * 100
    assert chain.value("SELECT count(*) FROM nottwice.events") == 51
    copies = chain.value("SELECT sum(deliveries) FROM nottwice.duplicates")
    assert copies == 49
    chain.worker()
    until(lambda: chain.value("SELECT count(*) FROM nottwice.events WHERE state = 'completed'") == 51)
    assert chain.value("SELECT count(*) FROM public.effects") == 51
    assert chain.effects(key) == 1


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
    port = free_port()
    chain.start(
        "ledger.receiver",
        DATABASE_URL="postgresql+psycopg://nobody@127.0.0.1:1/nowhere",
        NOTTWICE_RECEIVER_PORT=str(port),
    )
    until(lambda: status(port, "/healthz") == 200)
    assert status(port, "/readyz") == 503
    assert chain.post(event("order.placed")[1], port) == 503
