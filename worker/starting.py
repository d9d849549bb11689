"""How a worker starts, named by NOTTWICE_WORKER_NAME: without a database too, and it goes on by itself."""

from __future__ import annotations

import gc
import os
import socket
import sys

from ledger.errors import LedgerError
from ledger.running.rehearsal import REHEARSE
from ledger.settings import load
from worker import loading, notices, providers
from worker.daemon import Daemon

OBJECTS_BEFORE_A_LOOK = (
    5_000  # the interpreter's 700 are those of a hundred events in hand: none of it is garbage
)


def main() -> int:
    name = os.environ.get("NOTTWICE_WORKER_NAME") or f"{socket.gethostname()}-{os.getpid()}"
    try:
        settings = load()
        handlers = notices.add_to(loading.load(settings), settings)
        daemon = Daemon(settings, handlers, providers.build_all(settings), name)
        gc.collect()
        gc.freeze()  # what is here now stays: a full collection that walks it would hold every thread up
        gc.set_threshold(OBJECTS_BEFORE_A_LOOK)
        return 0 if REHEARSE in sys.argv else daemon.run()
    except LedgerError as error:
        sys.stderr.write(f"nottwice work: {error}\n")
        return 2
