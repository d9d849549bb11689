"""`python -m worker.sandbox`: the sandbox provider as a process, on loopback alone."""

from __future__ import annotations

import logging
import socket
import sys

import uvicorn

from ledger.errors import LedgerError
from ledger.settings import Settings, load
from worker.sandbox.server import LineCut, create
from worker.sandbox.store import Store


def main() -> int:
    try:
        settings = load()
        store = Store(settings.home / "sandbox" / "mails.jsonl")
        store.load()
        app = create(store, _bearers(settings))
        listener = socket.create_server(("127.0.0.1", settings.sandbox_port), backlog=512)
    except LedgerError as error:
        sys.stderr.write(f"sandbox: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(
            f"sandbox: port {settings.sandbox_port} cannot be used ({error.strerror}). "
            "Choose another with NOTTWICE_SANDBOX_PORT.\n"
        )
        return 2
    logging.getLogger("uvicorn.error").addFilter(_not_a_cut_line)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def _bearers(settings: Settings) -> dict[str, str]:
    return {p.kind: settings.secret(p.key) for p in settings.providers.values()}


def _not_a_cut_line(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], LineCut))


if __name__ == "__main__":
    sys.exit(main())
