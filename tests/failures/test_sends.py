"""The failure table's rows on external actions: what the sandbox provider accepted is the judge.

That a worker may be killed at any step of a send is proved in `test_boundaries.py`, for each step there is.
"""

from __future__ import annotations

import signal

import pytest

from tests.failures.house import House, event, is_stopped, until


@pytest.fixture
def sending(chain: House) -> House:
    chain.sandbox()
    chain.receiver()
    return chain


@pytest.mark.parametrize(
    ("kind", "state", "requests"),
    [("message.received", "sent", 2), ("invoice.paid", "needs_review", 1)],
    ids=["with a key", "without a key"],
)
def test_wrk_01_crash_after_an_external_action_succeeded(
    sending: House, kind: str, state: str, requests: int
) -> None:
    """The same key is used again inside its window, or it waits for review: one e-mail."""
    key, body = event(kind)
    assert sending.post(body) == 200
    first = sending.worker(fault="sender.after_call=kill@1")
    assert until(lambda: first.poll()) == -signal.SIGKILL
    sending.leases_run_out(first)
    sending.worker()
    until(lambda: sending.action_state(key) == state)
    assert len(sending.mails() or []) == sending.effects(key) == 1
    asked = sending.requests() or []
    assert len(asked) == requests
    assert len({(r["idempotency_key"], r["body_digest"]) for r in asked}) == 1


def test_wrk_03_old_worker_resumes_after_reassignment_and_its_answer_is_kept(sending: House) -> None:
    key, body = event("message.received")
    frozen = sending.worker(fault="sender.after_call=stop@1")
    assert sending.post(body) == 200
    until(lambda: is_stopped(frozen.pid))
    sending.leases_run_out(frozen)
    sending.worker()
    until(lambda: sending.action_state(key) == "sent")
    frozen.send_signal(signal.SIGCONT)
    until(
        lambda: sending.value("SELECT count(*) FROM nottwice.action_attempts WHERE outcome = 'accepted'") == 2
    )
    assert sending.action_state(key) == "sent"
    assert len(sending.mails() or []) == 1
    assert sending.value("SELECT count(DISTINCT message_id) FROM nottwice.action_attempts") == 1


def test_a_late_answer_without_a_key_settles_what_waits_in_review(sending: House) -> None:
    key, body = event("invoice.paid")
    frozen = sending.worker(fault="sender.after_call=stop@1")
    assert sending.post(body) == 200
    until(lambda: is_stopped(frozen.pid))
    sending.leases_run_out(frozen)
    sending.worker()
    until(lambda: sending.action_state(key) == "needs_review")
    frozen.send_signal(signal.SIGCONT)
    until(lambda: sending.action_state(key) == "sent")
    assert len(sending.mails() or []) == 1


def test_snd_01_accepted_but_the_answer_is_lost(sending: House) -> None:
    sending.configure(timeout_s=3.0)
    sending.faults({"provider": "agentmail", "accept_then_silence": True, "silence_s": 60, "count": 1})
    key, body = event("message.received")
    sending.worker()
    assert sending.post(body) == 200
    until(lambda: sending.action_state(key) == "sent")
    mails, requests = sending.mails() or [], sending.requests() or []
    assert len(mails) == 1
    assert len(requests) > 1
    assert len({(r["idempotency_key"], r["body_digest"]) for r in requests}) == 1
    assert sending.value("SELECT message_id FROM nottwice.actions") == mails[0]["message_id"]


def test_an_answer_lost_without_a_key_waits_for_a_person(sending: House) -> None:
    sending.configure(timeout_s=3.0)
    sending.faults({"provider": "inboxili", "accept_then_silence": True, "silence_s": 60, "count": 1})
    key, body = event("invoice.paid")
    sending.worker()
    assert sending.post(body) == 200
    until(lambda: sending.action_state(key) == "needs_review")
    assert len(sending.requests() or []) == 1
    assert len(sending.mails() or []) == 1
