"""Signs of life, the wait of an idle worker, and the sweep that waits after an outage."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from ledger import work, workers
from ledger.database import Database
from ledger.records import KindRules, Worker
from tests.fix_events import Crowd, Ledger, worker

W = worker(("shop", "invoice.paid"), name="w-1")
PATIENCE_S, PAUSE_S = 0.4, 0.02
LONG_S = 40.0  # only somebody who hangs waits so long


def register(book: Ledger, one: Worker) -> None:
    book.database.run(lambda tx: workers.register(tx, one))


def alive(book: Ledger, silent_s: float = 60.0) -> list[workers.Alive]:
    return book.database.run(lambda tx: workers.alive(tx, silent_s))


def silence(book: Ledger, one: Worker, seconds: float) -> None:
    book.run(
        "UPDATE nottwice.workers SET seen_at = now() - make_interval(secs => :s) WHERE id = :id",
        id=one.id,
        s=seconds,
    )


# ── Signs of life ─────────────────────────────────────────────────────────────────────────────────────


def test_a_start_is_noted_with_where_it_runs_and_what_it_handles(book: Ledger) -> None:
    register(book, W)
    (one,) = alive(book)
    assert (one.id, one.name, one.host, one.pid) == (W.id, "w-1", socket.gethostname(), os.getpid())
    assert book.value("SELECT handles FROM nottwice.workers") == ["shop invoice.paid"]
    other = replace(W, id=uuid4())
    book.database.run(lambda tx: workers.register(tx, other, host="elsewhere", pid=7))
    assert {(one.name, one.host) for one in alive(book)} == {
        ("w-1", socket.gethostname()),
        ("w-1", "elsewhere"),
    }


def test_who_is_silent_or_has_stopped_is_not_alive(book: Ledger) -> None:
    silent, stopped = replace(W, id=uuid4(), name="silent"), replace(W, id=uuid4(), name="stopped")
    for one in (W, silent, stopped):
        register(book, one)
    silence(book, silent, 90)
    book.database.run(lambda tx: workers.stop(tx, stopped.id))
    assert [one.name for one in alive(book)] == ["w-1"]
    assert [one.name for one in alive(book, silent_s=100)] == ["w-1", "silent"]
    assert alive(book, silent_s=100)[1].silent_s == pytest.approx(90, abs=15)
    book.database.run(lambda tx: workers.beat(tx, silent.id))
    assert {one.name for one in alive(book)} == {"w-1", "silent"}


def test_who_was_forgotten_comes_back_with_its_next_registration(book: Ledger) -> None:
    register(book, W)
    register(book, other := replace(W, id=uuid4()))
    silence(book, W, 7200)
    assert book.database.run(workers.forget_silent) == 1
    assert [one.id for one in alive(book)] == [other.id]
    register(book, W)
    assert {one.id for one in alive(book)} == {W.id, other.id}


# ── Waiting ───────────────────────────────────────────────────────────────────────────────────────────


def wait(
    book: Ledger,
    *,
    handles: tuple[tuple[str, str], ...] = (("shop", "invoice.paid"),),
    accounts: tuple[str, ...] = (),
    patience_s: float = PATIENCE_S,
) -> tuple[bool, float]:
    """Whether something is due, and after how many seconds the answer came."""
    begun = time.monotonic()
    told = book.database.run(
        lambda tx: workers.wait_for_work(tx, handles, accounts, patience_s=patience_s, pause_s=PAUSE_S)
    )
    return told.due, time.monotonic() - begun


def test_waits_as_long_as_it_may_when_nothing_is_due(book: Ledger) -> None:
    book.stored("later")
    book.run("UPDATE nottwice.events SET due_at = now() + interval '1 h'")
    book.stored("not mine", type="other")
    due, took_s = wait(book)
    assert not due and took_s >= PATIENCE_S - 2 * PAUSE_S
    assert wait(book, handles=(), patience_s=0.0)[0] is False


def test_returns_at_once_when_something_is_due(book: Ledger) -> None:
    book.stored("a")
    due, took_s = wait(book, patience_s=LONG_S)
    assert due and took_s < LONG_S


def test_sees_what_arrives_while_it_waits(many: Ledger, crowd: Callable[[int], Crowd]) -> None:
    """now() stands still inside a statement: the look must not."""
    waited, _ = crowd(2).at_once([lambda: wait(many, patience_s=LONG_S), lambda: many.stored("a")])
    assert isinstance(waited, tuple) and waited[0] and waited[1] < LONG_S


def test_sees_what_becomes_due_while_it_waits(book: Ledger) -> None:
    book.stored("a")
    begun = time.monotonic()
    book.run("UPDATE nottwice.events SET due_at = clock_timestamp() + interval '150 ms'")
    due, took_s = wait(book, patience_s=LONG_S)
    assert due and took_s < LONG_S and time.monotonic() - begun > 0.14


def test_an_account_with_a_send_that_is_due(book: Ledger) -> None:
    rules = KindRules("receipt", "inboxili", "inboxili:main")
    book.run(
        """INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, provider, account, reference, policy, cost,
               content_digest, key_margin_s, evidence_s, retry_until, state, due_at)
           VALUES ('acme', 'k', sha256('k'), :kind, :provider, :account, 'r', 'review', 'high', 'x', 0, 0, now(), 'approved', now())""",
        kind=rules.kind,
        provider=rules.provider,
        account=rules.account,
    )
    assert wait(book, handles=(), accounts=("inboxili:main",), patience_s=0.0)[0]
    assert not wait(book, handles=(), accounts=("another",), patience_s=0.0)[0]
    book.run(
        "INSERT INTO nottwice.provider_pauses (account, paused_until, reason) VALUES (:a, now() + interval '1 h', '429')",
        a=rules.account,
    )
    assert not wait(book, handles=(), accounts=("inboxili:main",), patience_s=0.0)[0]


def test_a_rescued_event_is_due_until_an_idle_worker_has_it(book: Ledger) -> None:
    def due() -> bool:
        return book.database.run(lambda tx: workers.rescued_is_due(tx, W.handles))

    (event_id,) = book.stored("a")
    assert not due()
    book.claim(W)
    book.expire(event_id)
    book.rescue()
    assert due()
    assert not book.database.run(lambda tx: workers.rescued_is_due(tx, [("shop", "other")]))
    book.claim(W, idle=True)
    assert not due()


# ── The sweep after an outage ─────────────────────────────────────────────────────────────────────────

SWEEP_S, LEASE_S = 50.0, 300.0


def may_rescue(book: Ledger) -> bool:
    return book.database.run(lambda tx: workers.sweep(tx, sweep_s=SWEEP_S, lease_s=LEASE_S)) is not None


def time_passes(book: Ledger, seconds: float) -> None:
    """As far as the sweep's memory goes."""
    book.run(
        """UPDATE nottwice.maintenance SET last_at = last_at - make_interval(secs => :s),
                                           resume_at = resume_at - make_interval(secs => :s) WHERE duty = 'sweep'""",
        s=seconds,
    )


def test_a_sweep_in_time_rescues(book: Ledger) -> None:
    assert may_rescue(book)
    for _ in range(3):
        time_passes(book, SWEEP_S * 2)
        assert may_rescue(book)


def test_a_sweep_far_too_late_waits_one_lease(book: Ledger) -> None:
    """Nobody swept, so perhaps nobody could renew either: living workers come first."""
    may_rescue(book)
    time_passes(book, SWEEP_S * 4)
    waited_s = 0.0
    while not may_rescue(book):
        time_passes(book, SWEEP_S)
        waited_s += SWEEP_S
    assert waited_s == pytest.approx(LEASE_S, abs=SWEEP_S)


def test_another_start_of_the_server_waits_one_lease(book: Ledger) -> None:
    """A failover, or a restart so quick that no sweep was missed."""
    may_rescue(book)
    book.run(
        "UPDATE nottwice.maintenance SET server_started = server_started - interval '1 s' WHERE duty = 'sweep'"
    )
    assert not may_rescue(book)
    answers = []
    for _ in range(7):
        time_passes(book, SWEEP_S)
        answers.append(may_rescue(book))
    assert answers == [False] * 5 + [True] * 2


def test_a_second_outage_while_it_waits_begins_anew(book: Ledger) -> None:
    may_rescue(book)
    time_passes(book, 3600)
    assert not may_rescue(book)
    time_passes(book, LEASE_S - SWEEP_S)
    assert not may_rescue(book)  # late again
    time_passes(book, SWEEP_S * 2)
    assert not may_rescue(book)


def test_workers_renew_before_anything_is_rescued_after_an_outage(book: Ledger) -> None:
    """The whole of it: every lease ran out while the database was away; who lives renews nothing but completes."""
    ids = book.stored("alive", "dead")
    may_rescue(book)
    one, other = book.claim(W)
    book.expire(*ids)
    time_passes(book, 3600)
    assert not may_rescue(book)
    assert book.complete(one)
    time_passes(book, LEASE_S / 2)
    time_passes(book, LEASE_S / 2)
    book.run("UPDATE nottwice.maintenance SET last_at = now() WHERE duty = 'sweep'")
    assert may_rescue(book)
    assert book.rescue() == {other.event.id: "pending"}


def test_many_sweeps_at_once_agree(many: Ledger, crowd: Callable[[int], Crowd]) -> None:
    together = crowd(8)
    assert together.at_once([lambda: may_rescue(many)] * 8) == [True] * 8
    time_passes(many, 3600)
    assert together.at_once([lambda: may_rescue(many)] * 8) == [False] * 8


def test_the_workers_login_may_do_all_of_it(book: Ledger, login_url: Callable[[str], str]) -> None:
    own = Ledger(Database(login_url("nottwice_worker")))
    register(own, W)
    assert [one.id for one in alive(own)] == [W.id]
    assert may_rescue(own) and own.database.run(work.rescue) == []
    assert wait(own, patience_s=0.0)[0] is False
    own.database.run(lambda tx: workers.stop(tx, W.id))
    assert own.database.run(lambda tx: workers.forget_silent(tx, silent_s=-1.0)) == 1
    own.database.close()
