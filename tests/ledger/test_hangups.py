"""SIGHUP to a process that is still starting: it is taken when somebody listens, and ends nobody."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from ledger.running.child import Child
from ledger.running.processes import Service
from tests import starts
from tests.fix_home import NOBODY_LISTENS, SECRET, SHOP, WITHIN_S, Home, until

ENTRY = (sys.executable, "-m", "ledger.entry")  # what the console script runs
LISTENS_LATE = """
import signal
from ledger import hangups
signal.signal(signal.SIGHUP, lambda *_: print("hung up", flush=True))
hangups.take()
"""


@pytest.mark.parametrize(
    ("command", "point", "words"),
    [
        ((*ENTRY, "receive"), "nottwice.starts", "configuration read"),
        ((sys.executable, "-m", "ledger.receiver"), "receiver.starts", "configuration read"),
        ((sys.executable, "-m", "worker"), "worker.starts", "database away"),
    ],
)
def test_a_hangup_at_the_start_ends_no_process_and_is_not_lost(
    home: Home, command: tuple[str, ...], point: str, words: str
) -> None:
    home.configure(SHOP)
    # A signal that waits survives an exec: the kernel's promise, so here a real one.
    process = hung_up(home, command, point, anew=ENTRY[1:] == command[1:3])
    until(lambda: process.poll() is not None or words in home.said.read_text(), home.said.read_text)
    process.send_signal(signal.SIGTERM)
    assert process.wait(WITHIN_S) == 0, home.said.read_text()


def test_up_that_cannot_start_says_so_after_a_hangup(home: Home) -> None:
    home.configure("no table")
    process = hung_up(home, (*ENTRY, "up"), "nottwice.starts")
    assert process.wait(WITHIN_S) == 2 and "line 1" in home.said.read_text()


def test_one_that_a_supervisor_has_just_started_hears_it_when_it_listens(tmp_path: Path) -> None:
    service = Service("late", 0, (sys.executable, "-c", LISTENS_LATE), dict(os.environ), takes_hangup=True)
    child = Child(service, tmp_path / "late.log")
    child.start()
    child.send(signal.SIGHUP)
    try:
        until(lambda: child.ended() is not None, lambda: "runs on")
        assert (child.ended(), child.last_words()) == (0, "hung up")
    finally:
        child.kill()


def hung_up(home: Home, command: tuple[str, ...], point: str, *, anew: bool = False) -> starts.Running:
    """A process that got SIGHUP while it was held at a point of its start, and goes on now."""
    go = home.folder / "go"
    armed = {"NOTTWICE_FAULT": f"{point}=file:{go}", "DATABASE_URL": NOBODY_LISTENS, **SECRET}
    with home.said.open("w") as said:
        out = said.fileno()
        process = starts.start(command, env=home.environment(armed), stdout=out, stderr=out, anew=anew)
    home.started.append(process)
    until(lambda: point in home.said.read_text(), home.said.read_text)
    process.send_signal(signal.SIGHUP)
    go.touch()
    return process
