"""The failure table's rows on work: real workers, killed, stopped and continued at named points."""

from __future__ import annotations

import itertools
import signal

from tests.failures.house import WITHIN_S, House, event, is_stopped, until
from tests.starts import Running


def at_rest(chain: House) -> bool:
    with chain.database.transaction() as tx:
        return not tx.all(
            "SELECT FROM nottwice.events WHERE state IN ('pending', 'processing')"
            " UNION ALL SELECT FROM nottwice.actions WHERE state IN ('approved', 'sending')"
        )


def test_wrk_01_crash_after_claiming(chain: House) -> None:
    """The lease expires, another worker takes over."""
    killed_and_taken_over(chain, "worker.after_claim")


def test_wrk_01_a_worker_is_killed_halfway_through_an_event_whose_effect_is_keyed(chain: House) -> None:
    killed_and_taken_over(chain, "worker.in_handler")


def killed_and_taken_over(chain: House, point: str) -> None:
    """Two points that the failure table names; `test_boundaries.py` kills at every one there is."""
    chain.receiver()
    key, body = event("order.placed")
    assert chain.post(body) == 200
    first = chain.worker(fault=f"{point}=kill@1")
    assert until(lambda: first.poll()) == -signal.SIGKILL
    chain.leases_run_out(first)
    chain.worker()
    until(lambda: chain.state(key) == "completed")
    assert chain.effects(key) == 1


def test_wrk_03_old_worker_resumes_after_reassignment(chain: House) -> None:
    chain.receiver()
    key, body = event("order.placed")
    frozen = chain.worker(fault="worker.in_handler=stop@1")
    assert chain.post(body) == 200
    until(lambda: is_stopped(frozen.pid))
    chain.leases_run_out(frozen)
    other = chain.worker()
    until(lambda: chain.state(key) == "completed")
    frozen.send_signal(signal.SIGCONT)
    until(lambda: "lease_lost" in chain.log(frozen))
    assert chain.effects(key) == 1
    assert chain.value("SELECT run_by FROM public.effects") == other.pid
    assert chain.state(key) == "completed"


def test_wrk_14_the_local_change_of_a_late_completion_is_rolled_back(chain: House) -> None:
    chain.receiver()
    key, body = event("order.placed")
    frozen = chain.worker(fault="worker.before_commit=stop@1")
    assert chain.post(body) == 200
    until(lambda: is_stopped(frozen.pid))
    # Its transaction holds the row; the server ends it, as idle_in_transaction_session_timeout would.
    chain.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        " AND datname = current_database() AND pid <> pg_backend_pid()"
    )
    chain.leases_run_out(frozen)
    other = chain.worker()
    until(lambda: chain.state(key) == "completed")
    frozen.send_signal(signal.SIGCONT)
    until(lambda: "lease_lost" in chain.log(frozen))
    assert chain.effects(key) == 1
    assert chain.value("SELECT run_by FROM public.effects") == other.pid


def test_the_work_keeps_failing_one_broken_event_among_good_ones(chain: House) -> None:
    chain.receiver()
    key, body = event("order.broken")
    good, good_body = event("order.placed")
    chain.worker()
    assert chain.post(body) == 200
    assert chain.post(good_body) == 200
    until(lambda: chain.state(good) == "completed")
    until(lambda: chain.state(key) == "failed")
    tries = chain.rows("SELECT claimed_at, ended_at, ending FROM nottwice.event_attempts ORDER BY id")
    assert [row.ending for row in tries] == ["retry"] * 4 + ["set_aside"]
    waits = [(b.claimed_at - a.ended_at).total_seconds() for a, b in itertools.pairwise(tries)]
    assert all(wait >= 0.1 * 2**n for n, wait in enumerate(waits)), waits
    assert chain.effects(key) == 0


def test_a_worker_keeps_crashing_on_one_event(chain: House) -> None:
    chain.receiver()
    chain.worker(idle=True)  # somebody must be left to sweep
    key, body = event("order.deadly")
    beside = [event("order.placed") for _ in range(5)]
    assert chain.post(body) == 200
    for _, other in beside:
        assert chain.post(other) == 200
    running: list[Running] = []

    def state() -> bool:
        is_dead = bool(running) and running[-1].poll() is not None
        if is_dead:
            chain.leases_run_out(running[-1])
        if is_dead or not running:
            running.append(chain.worker())
        return chain.state(key) == "failed"

    until(state, within_s=3 * WITHIN_S)  # five processes, one after the other
    until(lambda: all(chain.state(k) == "completed" for k, _ in beside))
    assert all(chain.effects(k) == 1 for k, _ in beside)
    assert chain.value("SELECT max(attempts) FROM nottwice.events WHERE type = 'order.placed'") <= 2
    assert chain.value("SELECT attempts FROM nottwice.events WHERE type = 'order.deadly'") == 5


def test_four_workers_share_sixty_events(chain: House) -> None:
    chain.receiver()
    events = [event("order.placed") for _ in range(60)]
    for _ in range(4):
        chain.worker()
    for _, body in events:
        assert chain.post(body) == 200
    until(lambda: chain.value("SELECT count(*) FROM nottwice.events WHERE state = 'completed'") == 60)
    assert all(chain.effects(key) == 1 for key, _ in events)
    assert at_rest(chain)


def test_wrk_07_sigterm_ends_an_idle_worker_with_code_0(chain: House) -> None:
    process = chain.worker()
    process.send_signal(signal.SIGTERM)
    assert process.wait(40) == 0
    assert chain.value("SELECT count(*) FROM nottwice.workers WHERE stopped_at IS NULL") == 0
