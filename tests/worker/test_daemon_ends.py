"""How a worker process begins and ends: signals, a database that is away, a configuration that is wrong."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.fix_sandbox import Sandbox
from tests.fix_worker import PROVIDER, Process, Workshop
from tests.worker.test_daemon_work import SALE, SLOW_SALE

PATIENT = "[supervisor]\nstop_within_s = 300\n"
FOREVER_S = "300"  # whoever waited for it would not have ended in time


def stop(worker: Process, *signals: signal.Signals) -> None:
    """Sends the signals; it ends with 0, and waits for nothing that takes for ever."""
    for number in signals or (signal.SIGTERM,):
        worker.signal(number)
        worker.notes.wait_for("stopping")
    assert worker.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_wrk_07_idle_it_ends_at_once(workshop: Workshop, number: signal.Signals) -> None:
    worker = workshop.start(SALE)
    worker.notes.wait_for("started")
    stop(worker, number)
    assert workshop.value("SELECT stopped_at IS NOT NULL FROM nottwice.workers")


def test_wrk_07_a_short_handler_completes_and_nothing_new_is_claimed(workshop: Workshop) -> None:
    workshop.accept("sale")
    worker = workshop.start(SLOW_SALE, env={"THINKS_S": "0.4"}, worker="slots = 1", grace_s=20.0)
    worker.notes.wait_for("claimed")
    worker.signal(signal.SIGTERM)
    worker.notes.wait_for("stopping")
    workshop.accept("sale")
    assert worker.ended() == 0
    assert workshop.states() == ["completed", "pending"]


def test_wrk_07_a_long_handler_is_handed_back_and_its_attempt_not_burnt(workshop: Workshop) -> None:
    """A tenth of the grace period is left for that, before the process ends whatever happens."""
    (event,) = workshop.accept("sale")
    worker = workshop.start(SLOW_SALE, env={"THINKS_S": FOREVER_S}, grace_s=10.0)
    worker.notes.wait_for("claimed")
    stop(worker)
    assert worker.notes.of("handed back", event_id=event)
    (row,) = workshop.rows("SELECT state, attempts, due_at <= now() AS due, alone FROM nottwice.events")
    assert tuple(row) == ("pending", 0, True, False)
    assert workshop.effects() == []


def test_wrk_07_a_second_signal_does_not_wait_for_the_grace_period(workshop: Workshop) -> None:
    workshop.accept("sale")
    worker = workshop.start(SLOW_SALE, env={"THINKS_S": FOREVER_S}, grace_s=200.0, more=PATIENT)
    worker.notes.wait_for("claimed")
    stop(worker, signal.SIGTERM, signal.SIGTERM)
    assert workshop.states() == ["pending"]


def test_an_apply_part_that_hangs_does_not_keep_the_process(workshop: Workshop) -> None:
    """Its transaction holds the row, so it cannot be handed back; the lease will tell."""
    hangs = """
@handlers.apply("shop", "sale")
def sale(tx, event, propose):
    effect(tx, event)
    time.sleep(300)
"""
    workshop.accept("sale")
    worker = workshop.start(hangs)
    worker.notes.wait_for("claimed")
    stop(worker)
    assert workshop.effects() == []
    workshop.leases_run_out(worker)
    workshop.start(SALE)
    workshop.until("SELECT count(*) = 1 FROM public.effects")


def test_wrk_07_a_call_under_way_records_its_answer(
    workshop: Workshop, sandbox: Sandbox, propose_one: Callable[..., int]
) -> None:
    sandbox.faults({"delay_s": 0.5})
    propose_one()
    worker = workshop.start(SALE, more=PROVIDER.format(url=sandbox.url, timeout_s=40.0), grace_s=20.0)
    workshop.until("SELECT count(*) = 1 FROM nottwice.action_attempts")
    stop(worker)
    assert workshop.value("SELECT state FROM nottwice.actions") == "sent"
    assert len(sandbox.mails) == 1


def test_wrk_07_a_call_longer_than_the_grace_period_is_uncertain_and_safe(
    workshop: Workshop, sandbox: Sandbox, propose_one: Callable[..., int]
) -> None:
    sandbox.faults({"delay_s": 8})
    propose_one()
    more = PROVIDER.format(url=sandbox.url, timeout_s=20.0)
    worker = workshop.start(SALE, more=more)
    workshop.until("SELECT count(*) = 1 FROM nottwice.action_attempts")
    stop(worker)
    assert workshop.value("SELECT state FROM nottwice.actions") == "sending"
    workshop.leases_run_out(worker)
    workshop.start(SALE, more=more)
    workshop.until("SELECT bool_or(abandoned_at IS NOT NULL) FROM nottwice.action_attempts")
    assert workshop.value("SELECT state IN ('approved', 'sending', 'sent') FROM nottwice.actions")
    assert len({request["idempotency_key"] for request in sandbox.requests}) == 1


def test_a_handler_past_its_time_is_left_and_the_process_replaced(workshop: Workshop) -> None:
    """The others finish; the exit code asks the supervisor for another process."""
    handlers = """
@handlers.on("shop", "hangs")
def hang(event):
    time.sleep(300)

@hang.apply
def hung(tx, event, nothing, propose):
    effect(tx, event)
"""
    workshop.accept("hangs")
    worker = workshop.start(
        SLOW_SALE + handlers, env={"THINKS_S": "3"}, worker="run_s_max = 5.0", lease_s=4.0, grace_s=20.0
    )
    worker.notes.wait_for("claimed")
    time.sleep(2.5)  # the second one begins while the first has half its time left
    (sale,) = workshop.accept("sale")
    assert worker.ended() == 75
    assert worker.notes.of("ran too long")
    assert workshop.effects() == [f"sale {sale}"]
    assert workshop.rows("SELECT attempts FROM nottwice.events ORDER BY id")[0].attempts == 1
    assert not worker.notes.of("handed back")


def test_it_starts_without_a_database_and_goes_on_by_itself(workshop: Workshop) -> None:
    workshop.accept("sale")
    with workshop.away():
        worker = workshop.start(SALE)
        worker.notes.wait_for("database away")
    workshop.until("SELECT count(*) = 1 FROM public.effects")
    with workshop.away():
        worker.notes.wait_for("database away", count=len(worker.notes.of("database away")) + 2)
        workshop.accept("sale")
    workshop.until("SELECT count(*) = 2 FROM public.effects")
    assert worker.popen.poll() is None


def test_without_a_database_it_still_ends_at_once(workshop: Workshop) -> None:
    with workshop.away():
        worker = workshop.start(SALE)
        worker.notes.wait_for("database away")
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0


def test_cut_off_while_working_it_ends_within_the_grace_period(workshop: Workshop) -> None:
    workshop.accept("sale")
    worker = workshop.start(SLOW_SALE, env={"THINKS_S": FOREVER_S})
    worker.notes.wait_for("claimed")
    with workshop.away():
        stop(worker)


@pytest.mark.parametrize(
    ("handlers", "parts", "words"),
    [
        ("@handlers.apply('shop', 'sale')\ndef sale(tx): pass\n", {}, "must take (tx, event, propose)"),
        ("import nothing_of_that_name\n", {}, "cannot be imported"),
        (SALE, {"worker": "slot = 3"}, "slot"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    workshop: Workshop, handlers: str, parts: dict[str, str], words: str
) -> None:
    worker = workshop.start(handlers, **parts)
    assert worker.ended() == 2
    assert len(worker.said) == 1 and words in worker.said[0]


def test_a_schema_of_another_version_stops_it(workshop: Workshop) -> None:
    workshop.run("DELETE FROM nottwice.schema_files WHERE name LIKE '0006%'")
    worker = workshop.start(SALE)
    assert worker.ended() == 2
    assert "nottwice migrate" in worker.said[-1]


def test_sighup_reads_the_configuration_again_and_keeps_the_old_one_if_it_is_bad(
    workshop: Workshop, sandbox: Sandbox, propose_one: Callable[..., int]
) -> None:
    worker = workshop.start(SALE, more=PROVIDER.format(url="http://127.0.0.1:1", timeout_s=1.0))
    worker.notes.wait_for("started")
    file = workshop.folder / "nottwice.toml"
    good = file.read_text().replace("http://127.0.0.1:1", sandbox.url)
    file.write_text("nonsense = ")
    worker.signal(signal.SIGHUP)
    worker.notes.wait_for("configuration kept")
    workshop.until("SELECT count(refused_at) = 1 FROM nottwice.workers")
    file.write_text(good)
    worker.signal(signal.SIGHUP)
    worker.notes.wait_for("configuration read")
    propose_one()
    workshop.until("SELECT bool_and(state = 'sent') FROM nottwice.actions")


def test_with_all_its_slots_busy_it_does_not_spin(
    workshop: Workshop, sandbox: Sandbox, propose_one: Callable[..., int]
) -> None:
    """More is due than it has room for: it must not ask and ask again."""
    sandbox.faults({"delay_s": 2.0, "count": 2})
    for n in range(4):
        propose_one(f"receipt:{n}")
    workshop.accept("sale", "sale")
    worker = workshop.start(
        SLOW_SALE,
        env={"THINKS_S": "2.5"},
        worker="slots = 1\nsend_slots = 2",
        more=PROVIDER.format(url=sandbox.url, timeout_s=40.0),
    )
    workshop.until("SELECT count(*) = 2 FROM nottwice.action_attempts")
    worker.notes.wait_for("claimed")
    before = _cpu_s(worker.popen.pid)
    time.sleep(1.0)
    assert _cpu_s(worker.popen.pid) - before < 0.3
    workshop.until("SELECT count(*) = 2 FROM public.effects")
    workshop.until("SELECT bool_and(state = 'sent') FROM nottwice.actions")
    assert len(sandbox.mails) == 4


def _cpu_s(pid: int) -> float:
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
