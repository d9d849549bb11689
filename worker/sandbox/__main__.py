"""`python -m worker.sandbox`: the sandbox provider as a process, on loopback alone.

With a provider of kind smtp in the configuration it is a mail server too, on NOTTWICE_SANDBOX_SMTP_PORT
(25 above its own port).
NOTTWICE_SANDBOX_KEY_WINDOW_S is how long it keeps an idempotency key, in seconds (24 h).
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys

import uvicorn
from starlette.types import ASGIApp

from ledger.errors import LedgerError, Misconfigured
from ledger.settings import Settings, load
from worker.sandbox.courier import Courier
from worker.sandbox.faults import Faults
from worker.sandbox.incoming import Incoming
from worker.sandbox.server import create
from worker.sandbox.store import KEY_WINDOW_S, Store


def main() -> int:
    try:
        settings = load()
        store = Store(settings.home / "sandbox" / "accepted.jsonl", _key_window_s())
        store.load()
        incoming = Incoming(settings.home / "sandbox" / "received.jsonl")
        incoming.load()
        faults = Faults()
        app = create(store, _bearers(settings), faults, Courier(settings), incoming)
        listener = socket.create_server(("127.0.0.1", settings.sandbox_port), backlog=512)
    except LedgerError as error:
        sys.stderr.write(f"sandbox: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(
            f"sandbox: port {settings.sandbox_port} cannot be used ({os.strerror(error.errno or 0)}). "
            "Choose another with NOTTWICE_SANDBOX_PORT.\n"
        )
        return 2
    with contextlib.ExitStack() as beside:
        _serve_mail(settings, store, faults, beside)
        _serve(settings, app, listener)
    return 0


def _serve(settings: Settings, app: ASGIApp, listener: socket.socket) -> None:
    sys.stderr.write(
        f"The sandbox provider listens at http://127.0.0.1:{settings.sandbox_port}/, where its log is. Ctrl-C ends it.\n"
    )
    config = uvicorn.Config(app, log_level="critical", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


def _serve_mail(settings: Settings, store: Store, faults: Faults, beside: contextlib.ExitStack) -> None:
    """The mail server, where a provider of the configuration is one. Without it the APIs are there all the same."""
    table = next((p for p in settings.providers.values() if p.kind == "smtp"), None)
    if table is None:
        return
    try:
        from worker.sandbox.post import Post
    except ImportError:
        sys.stderr.write("sandbox: it speaks no SMTP without aiosmtpd. Install not-twice[sandbox].\n")
        return
    port = settings.sandbox_smtp_port
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        sys.stderr.write(
            f"sandbox: it speaks no SMTP, for port {port} cannot be used ({os.strerror(error.errno or 0)}). "
            "Choose another with NOTTWICE_SANDBOX_SMTP_PORT.\n"
        )
        return
    beside.enter_context(Post(store, faults, listener, settings.secret(table.key) if table.key else ""))
    sys.stderr.write(f"Its mail server listens at 127.0.0.1:{port}.\n")


def _bearers(settings: Settings) -> dict[str, str]:
    return {p.kind: settings.secret(p.key) for p in settings.providers.values() if p.key}


def _key_window_s() -> float:
    text = os.environ.get("NOTTWICE_SANDBOX_KEY_WINDOW_S") or str(KEY_WINDOW_S)
    try:
        return float(text)
    except ValueError:
        raise Misconfigured(f"NOTTWICE_SANDBOX_KEY_WINDOW_S is {text!r}; write seconds.") from None


if __name__ == "__main__":
    sys.exit(main())
