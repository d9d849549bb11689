"""`python -m ledger.receiver`: the receiver as a process. Starts without a database and recovers by itself."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from ledger.errors import LedgerError, Misconfigured
from ledger.receiver.app import create
from ledger.settings import Settings, load


def main() -> int:
    try:
        settings = load()
        app, listener = create(settings), _listen(settings)
    except LedgerError as error:
        sys.stderr.write(f"nottwice receive: {error}\n")
        return 2
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=10)
    Server(config).run(sockets=[listener])
    return 0


class Server(uvicorn.Server):
    """Ends with exit code 0 when it is asked to stop; uvicorn's own would end by the signal again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listen(settings: Settings) -> socket.socket:
    """The port, taken before anything else starts. Several receivers on one port: SO_REUSEPORT."""
    host, port = settings.receiver.host, settings.receiver_port
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if settings.receiver.reuse_port:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise Misconfigured(
            f"Port {port} of {host} cannot be used ({error.strerror}). Choose another with NOTTWICE_RECEIVER_PORT."
        ) from None
    listener.listen(2048)
    return listener


if __name__ == "__main__":
    sys.exit(main())
