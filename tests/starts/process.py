"""A process that the nest forked, as the test that asked for it sees it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

ROOT = Path(__file__).parents[2]
REQUEST_MAX = 1_000_000  # bytes; an environment may be long
FOREVER_S = 1e9


class Process:
    """To its test what `subprocess.Popen` is: `pid`, `returncode`, `poll`, `wait`, and the signals."""

    def __init__(self, name: str, pid: int, pidfd: int, ending: int) -> None:
        self.pid, self.returncode = pid, None  # type: tuple[int, int | None]
        self._name, self._pidfd, self._ending = name, pidfd, ending
        self._lock = Lock()

    def poll(self) -> int | None:
        """The exit code, negative for a signal, or None while it lives."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(FOREVER_S if timeout is None else timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self._name, timeout or 0.0)
        return code

    def _look(self, within_s: float) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._ending], [], [], within_s)[0]:
                said = os.read(self._ending, 16)
                self.returncode = int(said) if said else -signal.SIGKILL  # the nest went, and took it along
                os.close(self._ending)
                os.close(self._pidfd)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Nothing happens to one that has ended, nor ever to another process of the same number."""
        with self._lock:
            if self.returncode is None:
                try:
                    signal.pidfd_send_signal(self._pidfd, number)
                except ProcessLookupError:
                    return

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nest:
    """The process that forks the others of one kind. It ends when its line does, whatever became of the run."""

    def __init__(self, kind: str) -> None:
        self._line, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_MAX)
        command = [sys.executable, "-m", "tests.starts.nest", str(other.fileno()), kind]
        with other:
            self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[other.fileno()])
        self._lock = Lock()

    def start(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path, streams: Sequence[int]
    ) -> Process:
        """`streams`: what become the child's stdin, stdout and stderr."""
        ending, told = os.pipe()
        request = {"command": list(command), "env": dict(env), "folder": str(folder)}
        try:
            with self._lock:
                socket.send_fds(self._line, [json.dumps(request).encode()], [*streams, told])
                answer, fds, _, _ = socket.recv_fds(self._line, 64, 1)
        finally:
            os.close(told)
        assert fds, "the nest is gone"
        return Process(" ".join(command), int(answer), fds[0], ending)

    def close(self) -> None:
        self._line.close()
        self._process.wait()
