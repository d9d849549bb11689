"""Workers whose clocks are wrong, and long jobs beside short ones, at a twentieth of the real times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from ledger import check
from ledger.check import Finding, Level
from ledger.settings import AlertSettings
from tests.fix_worker import Process, Workshop

# What the operating system's clock would say, for this process alone. The file is read again at each look.
OTHER_CLOCK = """
import datetime, os, time

_time, _time_ns = time.time, time.time_ns

def _ahead_s():
    with open(os.environ["CLOCK_AHEAD"]) as file:
        return float(file.read())

class Moved(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):
        return cls.now(datetime.timezone.utc).replace(tzinfo=None)

time.time = lambda: _time() + _ahead_s()
time.time_ns = lambda: _time_ns() + int(_ahead_s() * 1e9)
datetime.datetime = Moved
"""
JOBS = """
@handlers.on("shop", "job")
def think(event):
    time.sleep(0.1)

@think.apply
def job(tx, event, thought, propose):
    effect(tx, event)

@handlers.apply("shop", "fails once")
def fails(tx, event, propose):
    if tx.first("SELECT FROM nottwice.event_attempts WHERE event_id = :id", id=event.id) is None:
        raise RuntimeError("not yet")
    effect(tx, event)

@handlers.on("shop", "long")
def wait_for_the_end(event):
    while not os.path.exists(os.path.join(os.environ["NOTTWICE_HOME"], "end")):
        time.sleep(0.02)

@wait_for_the_end.apply
def long(tx, event, thought, propose):
    effect(tx, event)
"""
PATIENT_S = 60.0  # several processes start, and wait for each other
RETRIED_AFTER_S = """
SELECT extract(epoch FROM e.ended_at - a.ended_at) FROM nottwice.events e JOIN nottwice.event_attempts a ON a.event_id = e.id
"""


def set_clock(workshop: Workshop, name: str, ahead_s: float) -> Path:
    file = workshop.folder / f"clock-{name}"
    anew = file.with_suffix(".new")
    anew.write_text(str(ahead_s))
    return anew.rename(file)


def start_with_clock(workshop: Workshop, name: str, ahead_s: float) -> Process:
    folder = workshop.folder / "other-clock"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(OTHER_CLOCK)
    env = {"PYTHONPATH": str(folder), "CLOCK_AHEAD": str(set_clock(workshop, name, ahead_s))}
    return workshop.start(JOBS, env=env)


def said_ahead_s(process: Process, event: str) -> float:
    """How far ahead of the real time this worker's own log is."""
    at = datetime.fromisoformat(process.notes.wait_for(event)["at"])
    return (at - datetime.now(UTC)) / timedelta(seconds=1)


def test_wrk_05_workers_whose_clocks_disagree_handle_each_job_once(workshop: Workshop) -> None:
    """Ten minutes ahead, ten behind, and one of them jumps an hour back; leases and retries go by the database."""
    fast, slow = (start_with_clock(workshop, name, s) for name, s in (("fast", 600.0), ("slow", -600.0)))
    assert said_ahead_s(fast, "started") > 500 and said_ahead_s(slow, "started") < -500
    ids = workshop.accept(*["job"] * 50)
    (retried,) = workshop.accept("fails once")
    workshop.until("SELECT count(*) > 10 FROM public.effects", PATIENT_S)
    set_clock(workshop, "fast", -3000.0)
    workshop.until("SELECT bool_and(state = 'completed') FROM nottwice.events", PATIENT_S)
    assert sorted(workshop.effects()) == sorted([*(f"job {id_}" for id_ in ids), f"fails once {retried}"])
    assert workshop.value("SELECT count(*) FROM nottwice.event_attempts WHERE ending = 'rescued'") == 0
    assert workshop.value(RETRIED_AFTER_S) >= 0.1
    assert fast.notes.of("claimed") and slow.notes.of("claimed")
    not_spinning(workshop)


def not_spinning(workshop: Workshop) -> None:
    """Idle, they take a few hundredths of a core."""
    swept = "SELECT last_at FROM nottwice.maintenance WHERE duty = 'sweep'"
    before, began = sum(map(cpu_s, workshop.processes)), workshop.value(swept)
    workshop.until(
        f"SELECT last_at > CAST('{began}' AS timestamptz) + interval '1 s' FROM nottwice.maintenance WHERE duty = 'sweep'",
        PATIENT_S,
    )
    assert sum(map(cpu_s, workshop.processes)) - before < 1.0  # one that spins takes a second of each second


def cpu_s(process: Process) -> float:
    times = psutil.Process(process.popen.pid).cpu_times()
    return float(times.user + times.system)


def test_wrk_09_short_jobs_pass_a_long_one(workshop: Workshop) -> None:
    workshop.accept("long")
    workshop.start(JOBS, worker="slots = 1")
    workshop.until("SELECT bool_and(state = 'processing') FROM nottwice.events", PATIENT_S)
    short = workshop.accept(*["job"] * 20)
    workshop.start(JOBS, worker="slots = 1")
    workshop.until("SELECT count(*) = 20 FROM public.effects", PATIENT_S)
    assert workshop.states() == ["processing", *["completed"] * len(short)]
    release(workshop)


def release(workshop: Workshop) -> None:
    (workshop.folder / "end").touch()
    workshop.until("SELECT bool_and(state = 'completed') FROM nottwice.events", PATIENT_S)


def test_wrk_09_with_every_worker_held_up_somebody_is_warned(workshop: Workshop) -> None:
    """Two long ones on two workers: what waits is said with its age, and done when there is room again."""
    workshop.accept("long", "long")
    for _ in range(2):
        workshop.start(JOBS, worker="slots = 1")
    workshop.until("SELECT bool_and(state = 'processing') FROM nottwice.events", PATIENT_S)
    workshop.accept(*["job"] * 5)
    workshop.until(
        "SELECT bool_and(due_at < now() - interval '1 s') FROM nottwice.events WHERE state = 'pending'",
        PATIENT_S,
    )
    (late,) = warned(workshop)
    assert late.level >= Level.WARNING and workshop.effects() == []
    release(workshop)
    assert warned(workshop) == []


def warned(workshop: Workshop) -> list[Finding]:
    """What `nottwice check` says of waiting work when more than half a second is too long."""
    limits = AlertSettings(pending_s=0.5)
    found = workshop.database.run(lambda tx: check.findings(tx, limits))
    return [one for one in found if one.what.startswith("The oldest due event waits for")]
