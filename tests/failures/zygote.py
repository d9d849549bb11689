"""A process that has everything imported and forks the processes under test: a child costs milliseconds.

It reads requests from stdin, a JSON object a line, and tells on stdout of each child's start and end. A child opens its
own connections and has its log to itself; what it becomes is in `forked.py`. With stdin it ends, and so do its children.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.failures import forked


def main() -> None:
    read_end, write_end = os.pipe()
    for end in (read_end, write_end):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    forked.prepare()
    gc.collect()
    gc.freeze()
    children: set[int] = set()
    try:
        listen(read_end, children)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def listen(wakeup: int, children: set[int]) -> None:
    """Until stdin ends."""
    requests = b""
    tell({"ready": os.getpid()})
    while True:
        readable, _, _ = select.select([0, wakeup], [], [])
        if wakeup in readable:
            os.read(wakeup, 4096)
            reap(children)
        if 0 in readable:
            more = os.read(0, 65_536)
            if not more:
                return
            *lines, requests = (requests + more).split(b"\n")
            for line in lines:
                answer(json.loads(line), children)


def answer(request: dict[str, Any], children: set[int]) -> None:
    if "life" in request:
        children.add(fork(request))
    elif request["to"] in children:  # not yet waited for, so the pid is nobody else's
        os.kill(request["to"], request["signal"])


def tell(fact: dict[str, Any]) -> None:
    os.write(1, json.dumps(fact).encode() + b"\n")


def reap(children: set[int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        children.discard(pid)
        tell({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def fork(request: dict[str, Any]) -> int:
    at = request.get("listens")  # a port; 0 for any
    listener = None if at is None else socket.create_server(("127.0.0.1", at), backlog=128)
    port = listener.getsockname()[1] if listener else None
    pid = os.fork()
    if not pid:
        become(request, listener)
    if listener:
        listener.close()
    tell({"started": request["id"], "pid": pid, "port": port})
    return pid


def become(request: dict[str, Any], listener: socket.socket | None) -> None:
    """The child's whole life."""
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(Path(request["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        void = os.open(os.devnull, os.O_RDONLY)
        for end, to in ((log, 1), (log, 2), (void, 0)):
            os.dup2(end, to)
        code = forked.run(request, listener)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
