"""Children of a zygote, seen from the test: forked on demand, signalled, waited for."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.failures.boundaries import Ledger
from tests.failures.house import is_stopped

ROOT = Path(__file__).parents[2]
WITHIN_S = 40.0  # a deadline on a busy machine, not a duration


@dataclass
class Child:
    """One forked process. `code` is its exit code, negative for a signal, once it has ended."""

    id: int
    log: Path
    ledger: Ledger
    pid: int = 0
    port: int = 0
    code: int | None = None
    started: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def wait(self, within_s: float = WITHIN_S) -> int:
        """Its exit code."""
        assert self.ended.wait(within_s), f"{self.id} still lives after {within_s:g} s: {self.said()[-3000:]}"
        assert self.code is not None
        return self.code

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def is_stopped(self) -> bool:
        return is_stopped(self.pid)


class Zygote:
    """The process that forks all others; ended by `close`, and its children with it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder, self._ids = folder, count(1)
        self._children: dict[int, Child] = {}
        self._pids: dict[int, Child] = {}
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.failures.zygote"],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._ready.wait(WITHIN_S), "the zygote did not come up"

    def fork(self, life: str, **request: Any) -> Child:
        """A child that lives as `life`; returns when it was forked."""
        id_ = next(self._ids)
        child = Child(id_, self._folder / f"{id_}-{life}.log", Ledger(self._folder / f"{id_}.boundaries"))
        self._children[id_] = child
        asked = {"id": id_, "life": life, "log": str(child.log), **request}
        if request.get("watched"):
            asked["ledger"] = str(self._folder / f"{id_}.boundaries")
        self._ask(asked)
        assert child.started.wait(WITHIN_S), "the zygote forks no more"
        return child

    def signal(self, child: Child, number: signal.Signals) -> None:
        """By the zygote, which alone knows that the pid is still the child's; one that has ended is left alone."""
        self._ask({"signal": int(number), "to": child.pid})

    def _ask(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            fact = json.loads(line)
            if "ready" in fact:
                self._ready.set()
            elif "started" in fact:
                child = self._children[fact["started"]]
                child.pid, child.port = fact["pid"], fact["port"] or 0
                self._pids[child.pid] = child
                child.started.set()
            else:
                child = self._pids[fact["ended"]]
                child.code = fact["code"]
                child.ended.set()

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        self._process.stdout.close()
