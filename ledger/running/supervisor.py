"""Keeps a set of processes running, and ends them in order.

Each runs in a session of its own, so that a Ctrl-C in the terminal reaches the supervisor alone, and writes to
`NOTTWICE_HOME/log/NAME.log`. One that crashes is started again, later each time. One that ends with code 2 has said
why it cannot start: that ends everything. When the supervisor itself is killed, Linux sends each a SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

from ledger import hangups
from ledger.errors import Misconfigured, Unavailable
from ledger.running.child import Child
from ledger.running.processes import Service
from ledger.settings.processes import SupervisorSettings

LOOK_S = 0.05
LATER_STAGE_S = 1.0  # what a stage leaves to each stage after it
CANNOT_START = 2


class Supervisor:
    """`tell` gets one line for a person; `on_ready` is called once, when every service answers."""

    def __init__(
        self,
        services: Sequence[Service],
        limits: SupervisorSettings,
        log: Path | None,
        tell: Callable[[str], None],
    ) -> None:
        """Each writes to `NAME.log` in the folder `log`; without one, where we write."""
        self.children = [Child(service, log and log / f"{service.name}.log") for service in services]
        self._limits = limits
        self._tell = tell
        self._stops = 0  # how often we were asked to stop; the second time is impatient
        self._hangups = 0
        self._in_terminal = False

    def listen(self) -> None:
        """From now on SIGINT and SIGTERM ask to stop. SIGHUP is passed on, unless it says the terminal closed."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._asked_to_stop)
        self._in_terminal = _has_terminal()
        signal.signal(signal.SIGHUP, self._hung_up)
        hangups.take()

    def run(self, on_ready: Callable[[], None], *, every: Callable[[float], None] | None = None) -> None:
        """Until asked to stop. `every` is called with the seconds since everything was ready.

        Raises Misconfigured when a process says that it cannot start, Unavailable when one is not ready in time.
        Whatever happens, nothing of it runs afterwards.
        """
        try:
            for child in self.children if not self._stops else ():
                child.start()
            if self._until_ready():
                on_ready()
            since = time.monotonic()
            while not self._stops:
                self._look_after()
                if every:
                    every(time.monotonic() - since)
                time.sleep(LOOK_S)
        finally:
            self.stop()

    def stop(self) -> None:
        """SIGTERM, stage by stage; what is left at its stage's end is killed. A second signal kills at once."""
        deadline = time.monotonic() + self._limits.stop_within_s
        stages = sorted({child.service.stage for child in self.children})
        for later, stage in zip(reversed(range(len(stages))), stages, strict=True):
            ours = [child for child in self.children if child.service.stage == stage]
            for child in ours:
                child.ask_to_end()
            self._until_ended(ours, deadline - later * LATER_STAGE_S)
            for child in ours:
                child.kill()

    def kill(self, child: Child) -> bool:
        """SIGKILL, as a crash would; whether it was running. It is started again without being blamed."""
        child.expected = child.runs()
        child.kill()
        return child.expected

    def _until_ready(self) -> bool:
        """Whether all became ready before we were asked to stop."""
        deadline = time.monotonic() + self._limits.ready_within_s
        waiting = list(self.children)
        while waiting and not self._stops:
            self._look_after()
            waiting = [child for child in waiting if not _is_ready(child)]
            if waiting and time.monotonic() > deadline:
                raise Unavailable(
                    f"{waiting[0].service.name} is not ready after {self._limits.ready_within_s:g} s. "
                    f"{_where(waiting[0])}."
                )
            time.sleep(LOOK_S)
        return not self._stops

    def _look_after(self) -> None:
        self._pass_on_hangups()
        for child in self.children:
            if child.restart_at is not None:
                if time.monotonic() >= child.restart_at:
                    child.start()
            elif (code := child.ended()) is not None:
                self._mourn(child, code)
            child.keep_log_short(self._limits.log_bytes_max)

    def _mourn(self, child: Child, code: int) -> None:
        """Says what happened and sets the time of the next start, or raises when there is no point in one."""
        if code == CANNOT_START:
            raise Misconfigured(child.last_words() or f"{child.service.name} cannot start. {_where(child)}.")
        wait_s = child.blame(self._limits)
        if not child.expected:
            self._tell(
                f"{child.service.name} ended unexpectedly ({_how(code)}) and is started again in {wait_s:.1f} s"
                + (f"; its log is {child.log}" if child.log else "")
            )

    def _until_ended(self, children: Sequence[Child], deadline: float) -> None:
        while any(child.runs() for child in children):
            if time.monotonic() > deadline or self._stops > 1:
                return
            time.sleep(LOOK_S)

    def _pass_on_hangups(self) -> None:
        if self._hangups:
            self._hangups = 0
            for child in self.children:
                if child.service.takes_hangup:
                    child.send(signal.SIGHUP)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        self._stops += 1

    def _hung_up(self, number: int, frame: FrameType | None) -> None:
        """The kernel takes a closed terminal away before it says so; one that is still there was not closed."""
        if self._in_terminal and not _has_terminal():
            self._stops += 1
        else:
            self._hangups += 1


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _where(child: Child) -> str:
    return f"Its log is {child.log}" if child.log else "What it said stands above"


def _is_ready(child: Child) -> bool:
    if not child.runs():
        return False
    return child.service.ready_url is None or answers(child.service.ready_url)


def answers(url: str, *, timeout_s: float = 1.0) -> bool:
    """Whether a GET is answered with 200."""
    from http.client import HTTPConnection, HTTPException  # not needed for --help

    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("GET", parts.path or "/")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
