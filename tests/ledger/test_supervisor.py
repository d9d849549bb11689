"""Real processes under a real supervisor: started, restarted, ended in order, and never left behind."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ledger.running.child import Child
from ledger.running.demo import Killer
from ledger.running.processes import Service
from ledger.settings.processes import SupervisorSettings
from tests import starts

WITHIN_S = 40.0
# Quick, and all that a test of order needs: each event is one line of one file.
OBEDIENT = """
trap 'echo {name} hup >> {notes}' HUP
trap 'echo {name} term >> {notes}; exit 0' TERM
echo {name} start >> {notes}
while :; do sleep 0.02; done
"""
# A shell leaves what is held alone.
TAKES_HANGUPS = (
    "import os, sys; from ledger import hangups; hangups.take(); os.execvp(sys.argv[1], sys.argv[1:])"
)
DEAF = "trap '' TERM; echo {name} start >> {notes}; while :; do sleep 0.02; done"
FRAIL = "echo {name} start >> {notes}; echo broken; exit 3"
REFUSING = "echo {name} start >> {notes}; echo Port 1 cannot be used. >&2; exit 2"
KILLED = "echo {name} start >> {notes}; kill -9 $$"

SUPERVISE = """
import json, sys
from pathlib import Path
from ledger.errors import LedgerError
from ledger.running.processes import Service
from ledger.settings.processes import SupervisorSettings
from ledger.running.supervisor import Supervisor

given = json.loads(sys.argv[1])
services = [Service(s["name"], s["stage"], tuple(s["command"]), {"PATH": "/usr/bin:/bin"}, s.get("url"),
                    takes_hangup=s.get("hangup", False)) for s in given["services"]]
tell = lambda line: print(line, flush=True)
supervisor = Supervisor(services, SupervisorSettings(**given["limits"]), Path(given["log"]), tell)
supervisor.listen()
try:
    supervisor.run(lambda: tell("ready"))
except LedgerError as error:
    tell(f"{type(error).__name__}: {error}")
    sys.exit(2)
"""
LIMITS = {"restart_base_s": 0.05, "restart_s_max": 0.4, "stop_within_s": WITHIN_S, "ready_within_s": WITHIN_S}


class House:
    """A supervisor with its services, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notes = folder, folder / "notes"
        self.notes.touch()
        (folder / "supervise.py").write_text(SUPERVISE)
        self.process: starts.Running | None = None
        self.terminal: int | None = None

    def start(self, *services: dict[str, Any], **limits: float) -> None:
        for service in services:
            script = service.pop("script", None)
            if script:
                ahead = [sys.executable, "-c", TAKES_HANGUPS] if service.get("hangup") else []
                service["command"] = [
                    *ahead,
                    "sh",
                    "-c",
                    script.format(name=service["name"], notes=self.notes),
                ]
        given = {"services": services, "limits": LIMITS | limits, "log": str(self.folder / "log")}
        command = [sys.executable, self.folder / "supervise.py", json.dumps(given)]
        with (self.folder / "said").open("wb") as said:
            if self.terminal is None:
                said_fd = said.fileno()
                self.process = starts.start(command, env=os.environ, stdout=said_fd, stderr=said_fd)
            else:
                own = {"stdin": self.terminal, "preexec_fn": own_terminal}
                self.process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, **own)  # type: ignore[call-overload]

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(WITHIN_S)

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines()

    def children(self) -> list[psutil.Process]:
        assert self.process is not None
        return psutil.Process(self.process.pid).children()


def own_terminal() -> None:
    """In a new process: a session of its own, whose terminal is its standard input."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.terminate()
        made.process.wait(WITHIN_S)


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def obedient(name: str, stage: int, **more: object) -> dict[str, Any]:
    return {"name": name, "stage": stage, "script": OBEDIENT, **more}


def test_they_end_stage_by_stage(house: House) -> None:
    house.start(obedient("door", 2), obedient("worker", 1), obedient("traffic", 0))
    until(lambda: "ready" in house.said(), "ready")
    until(lambda: len(house.noted()) == 3, "all started")
    house.signal(signal.SIGTERM)
    assert house.wait() == 0
    assert [line for line in house.noted() if "term" in line] == ["traffic term", "worker term", "door term"]


def test_a_crash_is_told_and_the_next_start_waits_longer(house: House) -> None:
    house.start({"name": "frail", "stage": 0, "script": FRAIL}, obedient("other", 1))
    until(lambda: house.noted().count("frail start") >= 4, "four starts")
    told = [line for line in house.said().splitlines() if line.startswith("frail ended unexpectedly")]
    assert told[0].startswith("frail ended unexpectedly (exit code 3) and is started again in 0.1 s")
    assert "again in 0.2 s" in told[2]
    assert house.noted().count("other start") == 1


def test_a_kill_from_outside_is_told_too(house: House) -> None:
    house.start({"name": "victim", "stage": 0, "script": KILLED})
    until(lambda: "victim ended unexpectedly (SIGKILL)" in house.said(), "told")


def test_one_that_cannot_start_ends_everything_with_its_sentence(house: House) -> None:
    house.start(obedient("other", 1), {"name": "door", "stage": 0, "script": REFUSING})
    assert house.wait() == 2
    assert house.said().splitlines()[-1] == "Misconfigured: Port 1 cannot be used."
    assert house.noted()[-1] == "other term"


def test_one_that_does_not_listen_is_killed_in_time(house: House) -> None:
    house.start({"name": "deaf", "stage": 0, "script": DEAF}, obedient("other", 1), stop_within_s=1.5)
    until(lambda: len(house.noted()) == 2, "both started")
    deaf = next(child for child in house.children() if "trap ''" in " ".join(child.cmdline()))
    house.signal(signal.SIGINT)
    assert house.wait() == 0
    assert not deaf.is_running()
    assert house.noted()[-1] == "other term"  # its turn came all the same


def test_a_second_signal_does_not_wait(house: House) -> None:
    house.start({"name": "deaf", "stage": 0, "script": DEAF}, stop_within_s=60)
    until(lambda: house.noted(), "started")
    house.signal(signal.SIGINT)
    house.signal(signal.SIGTERM)
    assert house.wait() == 0


def test_a_stopped_process_ends_as_well(house: House) -> None:
    house.start(obedient("frozen", 0))
    until(lambda: house.noted(), "started")
    house.children()[0].suspend()
    house.signal(signal.SIGTERM)
    assert house.wait() == 0
    assert house.noted()[-1] == "frozen term"


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is Linux's")
def test_nobody_is_left_when_the_supervisor_is_killed(house: House) -> None:
    house.start(obedient("one", 0), obedient("two", 1))
    until(lambda: len(house.noted()) == 2, "both started")
    children = house.children()
    house.signal(signal.SIGKILL)
    house.wait()
    gone, left = psutil.wait_procs(children, timeout=WITHIN_S)
    assert len(gone) == 2 and not left
    assert sorted(house.noted()[2:]) == ["one term", "two term"]


def test_ctrl_c_in_the_terminal_reaches_the_supervisor_alone(house: House) -> None:
    house.start(obedient("one", 0))
    until(lambda: house.noted(), "started")
    assert house.process is not None
    assert os.getsid(house.children()[0].pid) != os.getsid(house.process.pid)


def test_a_hangup_is_passed_on_to_who_reads_again(house: House) -> None:
    house.start(obedient("reads", 0, hangup=True), obedient("does-not", 0))
    until(lambda: len(house.noted()) == 2, "both started")
    house.signal(signal.SIGHUP)
    until(lambda: "reads hup" in house.noted(), "passed on")
    house.signal(signal.SIGTERM)
    house.wait()
    assert "does-not hup" not in house.noted()


def test_a_hangup_in_a_terminal_is_passed_on_while_the_terminal_is_there(house: House) -> None:
    """`kill -HUP` from another window reloads; closing the window ends everything."""
    outer, house.terminal = os.openpty()
    house.start(obedient("reads", 0, hangup=True))
    os.close(house.terminal)
    until(lambda: house.noted(), "started")
    house.signal(signal.SIGHUP)
    until(lambda: "reads hup" in house.noted(), "passed on")
    os.close(outer)
    assert house.wait() == 0
    assert house.noted()[-1] == "reads term"


def test_ready_means_answering(house: House, unused_port: int) -> None:
    server = [sys.executable, "-m", "http.server", str(unused_port), "--bind", "127.0.0.1"]
    url = f"http://127.0.0.1:{unused_port}/"
    house.start({"name": "server", "stage": 0, "command": server, "url": url})
    until(lambda: "ready" in house.said(), "ready")
    with socket.create_connection(("127.0.0.1", unused_port), timeout=1):
        pass


def test_one_that_never_answers_is_told_and_all_end(house: House, unused_port: int) -> None:
    house.start(obedient("mute", 0, url=f"http://127.0.0.1:{unused_port}/"), ready_within_s=0.3)
    assert house.wait() == 2
    assert "Unavailable: mute is not ready after 0.3 s. Its log is" in house.said()
    assert house.noted()[-1:] in (
        ["mute term"],
        [],
    )  # on a busy machine the end may come before its first word


def test_a_log_that_grows_is_cut_while_it_is_written(tmp_path: Path) -> None:
    script = "while :; do echo 0123456789012345678901234567890123456789; sleep 0.002; done"
    child = Child(Service("chatty", 0, ("sh", "-c", script), dict(os.environ)), tmp_path / "chatty.log")
    child.start()
    try:
        until(lambda: child.log.stat().st_size > 1000, "written")
        child.keep_log_short(1000)
        assert (tmp_path / "chatty.log.1").stat().st_size > 1000
        until(lambda: 0 < child.log.stat().st_size < 1000, "goes on from the start of the file")
        assert child.last_words().startswith("01234567")
    finally:
        child.kill()


def test_last_words_are_of_this_start(tmp_path: Path) -> None:
    (tmp_path / "quiet.log").write_text("from before\n")
    child = Child(Service("quiet", 0, ("sh", "-c", "exit 2"), dict(os.environ)), tmp_path / "quiet.log")
    child.start()
    until(lambda: child.ended() is not None, "ended")
    assert child.last_words() == ""


def test_killing_takes_turns_and_keeps_its_interval() -> None:
    """The demo's workers die from the last to the first, one each interval, however late the look."""
    told: list[str] = []
    house = Workers(3)
    limits = Limits(supervisor=SupervisorSettings(kill_worker_every_s=10))
    killer = Killer(house, limits, told.append)  # type: ignore[arg-type]
    for passed_s in (0.0, 9.9, 10.0, 10.1, 20.5, 30.0, 40.0):
        killer(passed_s)
    assert house.killed == ["w-3", "w-2", "w-1", "w-3"]
    assert told[0] == "worker w-3 was killed, on purpose; its work will be taken over within 35 s"


class Workers:
    def __init__(self, workers: int) -> None:
        service = [Service(f"w-{n}", 1, ("true",), {}) for n in range(1, workers + 1)]
        self.children = [Child(one, Path("unused")) for one in service]
        self.killed: list[str] = []

    def kill(self, child: Child) -> bool:
        self.killed.append(child.service.name)
        return True


class Limits:
    def __init__(self, supervisor: SupervisorSettings) -> None:
        from ledger.settings.processes import WorkerSettings

        self.supervisor, self.worker = supervisor, WorkerSettings()
