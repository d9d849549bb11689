"""Places where a test may kill, stop or hold a real process, named by the environment variable NOTTWICE_FAULT.

    NOTTWICE_FAULT="sender.after_start=kill;worker.in_handler=sleep:1.5@2;worker.before_commit=file:/tmp/go"

`kill` is SIGKILL and `stop` SIGSTOP to this process; `sleep:S` holds the thread for S seconds; `file:PATH` holds it
until PATH exists. With `@N` only the N-th passage counts. Each fault that strikes first writes one JSON line to
stderr, so that a test can wait for it. Without the variable a point is one look into an empty dict.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ledger.errors import Misconfigured

FORM = re.compile(
    r"(?P<point>[a-z_.]+)=(?P<deed>kill|stop|sleep:[0-9.]+|file:.+?)(?:@(?P<nth>[0-9]+))?", re.ASCII
)
LOOK_AGAIN_S = 0.01


def point(name: str) -> None:
    """Let the fault armed for this point strike, if there is one."""
    fault = _armed.get(name)
    if fault is not None:
        fault.pass_by()


async def point_in_a_loop(name: str) -> None:
    """As `point`, without holding up the event loop."""
    if name in _armed:
        await asyncio.to_thread(point, name)


@dataclass(slots=True)
class Fault:
    """What happens at one point; `nth` 0 means at every passage."""

    name: str
    deed: str
    nth: int = 0
    passages: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pass_by(self) -> None:
        with self._lock:
            self.passages += 1
            strikes = self.nth in (0, self.passages)
        if strikes:
            _say(self.name, self.deed)
            verb, _, argument = self.deed.partition(":")
            DEEDS[verb](argument)


def parse(text: str) -> dict[str, Fault]:
    """The faults by point. Raises Misconfigured for a part that is not of the form above."""
    found: dict[str, Fault] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        match = FORM.fullmatch(part)
        if match is None:
            raise Misconfigured(
                f"NOTTWICE_FAULT has {part!r}; write POINT=kill, stop, sleep:SECONDS or file:PATH."
            )
        found[match["point"]] = Fault(match["point"], match["deed"], int(match["nth"] or 0))
    return found


def _say(name: str, deed: str) -> None:
    sys.stderr.write(json.dumps({"event": "fault", "point": name, "deed": deed, "pid": os.getpid()}) + "\n")
    sys.stderr.flush()


def _wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(LOOK_AGAIN_S)


DEEDS: dict[str, Callable[[str], None]] = {
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    # To this thread, so that it does not run on while the process is being stopped.
    "stop": lambda _: signal.pthread_kill(threading.get_ident(), signal.SIGSTOP),
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "file": _wait_for,
}

_armed = parse(os.environ.get("NOTTWICE_FAULT", ""))
