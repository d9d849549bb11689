"""The nest: a process that has everything imported and forks the processes under test (see the package).

Requests come over one socket: what to run, with the file descriptors of its streams and the one that its end is told
on. Nothing here may start a thread, open a connection or read the caller's installation: each child would share it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import threading
from typing import Any

from tests.starts.child import hatch
from tests.starts.process import REQUEST_MAX

SCREENS = ["audit", "events", "health", "me", "overview", "reprocess", "review", "sign_in", "stuck"]
# What each nest has imported: the programs under test, and what they import only at their first use.
PREPARED = {
    "house": [
        "ledger.cli",
        "ledger.entry",
        "ledger.receiver.starting",
        "ledger.receiver.server",
        "worker.starting",
        "worker.daemon",
        "worker.providers",
        "worker.notices",
        "worker.sandbox.server",
        "encodings.idna",
        "h11",
        "httpcore",
        "sqlalchemy.dialects.postgresql.psycopg",
        "uvicorn",
    ],
    "console": [
        "dashboard.serving",
        *(f"dashboard.screens.{name}" for name in SCREENS),
        "psycopg_binary",
        "uvicorn",
    ],
}


def main(line: socket.socket, kind: str) -> None:
    for name in PREPARED[kind]:
        importlib.import_module(name)
    if kind == "house":
        importlib.import_module(
            "worker.providers.httpx_line"
        ).trusted()  # a file of a package's, 30 ms a worker
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1, "a fork would lose the other threads"
    listen(line, {})


def listen(line: socket.socket, endings: dict[int, int]) -> None:
    """Until the line ends. `endings`: where the end of each child is told, by its pid."""
    wakeup = awakened_by_children()
    with selectors.DefaultSelector() as ready:
        ready.register(line, selectors.EVENT_READ)
        ready.register(wakeup, selectors.EVENT_READ)
        try:
            while True:
                for key, _ in ready.select():
                    if key.fd == wakeup:
                        os.read(wakeup, 4096)
                        reap(endings)
                    elif not answer(line, endings):
                        return
        finally:
            for pid in endings:
                os.kill(pid, signal.SIGKILL)


def awakened_by_children() -> int:
    """What can be read when a child has ended."""
    read_end, write_end = os.pipe()
    for end in (read_end, write_end):
        os.set_blocking(end, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run's own matter
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


def answer(line: socket.socket, endings: dict[int, int]) -> bool:
    """Fork one child. False when the line has ended."""
    request, fds, _, _ = socket.recv_fds(line, REQUEST_MAX, 4)
    if not request:
        return False
    *streams, told = fds
    pid = fork(json.loads(request), streams)
    for fd in streams:
        os.close(fd)
    endings[pid] = told
    pidfd = os.pidfd_open(pid)  # not yet waited for, so the pid is nobody else's
    socket.send_fds(line, [str(pid).encode()], [pidfd])
    os.close(pidfd)
    return True


def fork(request: dict[str, Any], streams: list[int]) -> int:
    pid = os.fork()
    if not pid:
        hatch(request, streams)
    return pid


def reap(endings: dict[int, int]) -> None:
    while endings:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        told = endings.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # its test has no use for it
            os.write(told, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(told)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
