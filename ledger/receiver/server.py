"""The receiver as a process: one port, one event loop, and what signals mean.

SIGTERM and SIGINT: no new connections, what is in hand is answered, exit 0. SIGHUP: configuration and secrets are
read again; a bad file keeps the old ones and says so.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import Any, cast

import uvicorn

from ledger import hangups
from ledger.errors import LedgerError, Misconfigured
from ledger.receiver.app import Door
from ledger.receiver.log import Lines, flush, note
from ledger.receiver.sources import adapters
from ledger.receiver.wire import Protocol
from ledger.running.processes import unusable
from ledger.settings import Settings, load

BACKLOG = 2048
YOUNG_MAX = (
    10_000  # objects until the young are looked through: those of a batch, which none of them outlives
)
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(
    settings: Settings, listener: socket.socket | None = None, *, reread: Callable[[], Settings] = load
) -> None:
    """Serve until a signal, on the port that was opened already or on the configured one.

    Raises Misconfigured when it cannot start, or when the database is not ours.
    """
    door = Door(settings)
    listener = listener or listen(settings)
    logging.basicConfig(handlers=[Lines()], level=logging.WARNING, force=True)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # what strangers send is counted, not logged
    try:
        Server(door, settings, reread).run(sockets=[listener])
    finally:
        flush()
    if door.store.failure is not None:
        raise door.store.failure
    note("stopped")


class Server(uvicorn.Server):
    """Ends by returning, so that the exit code is ours; uvicorn's own would end by the signal again."""

    def __init__(self, door: Door, settings: Settings, reread: Callable[[], Settings]) -> None:
        limits = settings.receiver
        protocol = partial(
            Protocol, tally=door.tally, welcome=door.welcome, head_within_s=limits.head_within_s
        )
        super().__init__(
            uvicorn.Config(
                door,
                loop="uvloop",
                http=cast("Any", protocol),
                ws="none",
                lifespan="on",
                backlog=BACKLOG,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                log_config=None,
                timeout_graceful_shutdown=ceil(limits.grace_s),
            )
        )
        self._door, self._settings, self._reread = door, settings, reread
        door.store.on_failure = self._stop

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._read_again)
        hangups.take()
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what is here now stays: a full collection that walks it would hold every request up
        gc.set_threshold(YOUNG_MAX)
        sources = sorted(self._door.sources)
        host, port = self._settings.receiver.host, self._settings.receiver_port
        note("listening", host=host, port=port, pid=os.getpid(), sources=sources)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if (
            not self._door.ended_well
        ):  # all are answered, but something hangs in the database and would hold us
            note("stopped", hanging=True)
            flush()
            os._exit(0)

    def _stop(self) -> None:
        self.should_exit = True

    def _read_again(self) -> None:
        """Sources and secrets, checked whole before any of it holds; the rest of the file is for the next start."""
        pulse = self._door.store.pulse
        try:
            settings = self._reread()
            self._door.sources = adapters(settings)
        except LedgerError as error:
            pulse.has_refused = True
            note("configuration kept", error=str(error))
            return
        pulse.has_refused = False
        waits = settings.differences(self._settings, "receiver") + settings.differences(
            self._settings, "database"
        )
        note("configuration read", sources=sorted(self._door.sources), after_restart=waits)


def listen(settings: Settings) -> socket.socket:
    """The port, taken before anything else starts. Several receivers on one port need `reuse_port` in all of them."""
    host, port = settings.receiver.host, settings.receiver_port
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if settings.receiver.reuse_port:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Misconfigured(unusable(error, "receiver", host, port)) from None
    return listener
