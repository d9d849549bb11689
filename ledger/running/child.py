"""One process under the supervisor: started, watched, ended."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO

from ledger import hangups
from ledger.running.processes import Service
from ledger.settings.processes import SupervisorSettings

LAST_WORDS_BYTES = 4096
PR_SET_PDEATHSIG = 1  # prctl(2)


class Child:
    """`restart_at` is set while it waits for its next start; `expected` when its end is our own doing."""

    def __init__(self, service: Service, log: Path | None) -> None:
        """Without a log it writes where we write."""
        self.service = service
        self.log = log
        self.crashes = 0
        self.restart_at: float | None = None
        self.expected = False
        self._started_at = 0.0
        self._log_from = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.restart_at, self.expected = None, False
        self._started_at = time.monotonic()
        if self.log is None:
            self._process = self._open(None)
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:  # appending, so that it may be cut short while it is written
            self._log_from = log.tell()
            self._process = self._open(log)

    def _open(self, log: IO[bytes] | None) -> subprocess.Popen[bytes]:
        with hangups.held() if self.service.takes_hangup else nullcontext():
            return subprocess.Popen(
                self.service.command,
                env=dict(self.service.environment),
                cwd=self.service.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=self.service.inherits,
                start_new_session=True,
                preexec_fn=_ends_with(os.getpid()),
            )

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ended(self) -> int | None:
        """The exit code, negative for a signal; None while it runs or before it was started."""
        return None if self._process is None else self._process.poll()

    def send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def ask_to_end(self) -> None:
        self.restart_at = None
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # a stopped process hears nothing else

    def kill(self) -> None:
        """It and whatever it started, at once. Nothing when it ended before: its number may be another's now."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def blame(self, limits: SupervisorSettings) -> float:
        """Counts a crash and sets the next start; returns the seconds until then."""
        if self.expected or time.monotonic() - self._started_at > limits.settled_after_s:
            self.crashes = 0
        wait_s = min(limits.restart_base_s * 2.0 ** min(self.crashes, 30), limits.restart_s_max)
        self.crashes += 1
        self.restart_at = time.monotonic() + wait_s
        return wait_s

    def last_words(self) -> str:
        """The last line it wrote since its start; without a log, everybody has read it."""
        if self.log is None:
            return ""
        with suppress(OSError), self.log.open("rb") as log:
            size = os.fstat(log.fileno()).st_size
            log.seek(max(0, self._log_from if self._log_from <= size else 0, size - LAST_WORDS_BYTES))
            lines = log.read().decode(errors="replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""

    def keep_log_short(self, bytes_max: int) -> None:
        """Copied aside and emptied, not renamed: the process goes on writing to the same file."""
        if self.log is None:
            return
        with suppress(OSError):
            if self.log.stat().st_size > bytes_max:
                shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
                os.truncate(self.log, 0)


def _ends_with(parent: int) -> Callable[[], None] | None:
    """For the new process: SIGTERM when its parent is gone, however that went. Linux only (prctl(2))."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)  # loaded before the fork

    def in_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it went before we asked
            os._exit(0)

    return in_child
