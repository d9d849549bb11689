"""Several receivers on one port: `[receiver] processes`. This process opens the port, and keeps them running.

All share one listening socket. With SO_REUSEPORT each had a queue of its own, and the connections in the queue of one
that is killed were lost; so they are taken by the others.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from ledger.receiver.log import note
from ledger.receiver.server import listen
from ledger.receiver.sources import adapters
from ledger.running import processes
from ledger.running.processes import RECEIVER, Service
from ledger.running.supervisor import Supervisor
from ledger.settings import Settings

SHARED = "--socket="  # an argument: the number of the socket that a receiver inherits


def serve_several(settings: Settings) -> None:
    """Until SIGTERM, which all of them get, as they get SIGHUP. One that dies is replaced.

    Raises Misconfigured when none can start; nothing is left running.
    """
    adapters(settings)  # what one cannot start with is said once
    with listen(settings) as listener:
        services = [_service(settings, n, listener) for n in range(1, settings.receiver.processes + 1)]
        receivers = Receivers(settings, services, listener)
        receivers.listen()
        receivers.run(lambda: note("receivers started", port=settings.receiver_port, processes=len(services)))
    note("all stopped")


class Receivers(Supervisor):
    """They write where this process writes."""

    def __init__(self, settings: Settings, services: Sequence[Service], listener: socket.socket) -> None:
        super().__init__(services, settings.supervisor, None, lambda text: note("receiver ended", text=text))
        self._listener = listener

    def stop(self) -> None:
        """When the last one has closed the port, nobody may still hold it open."""
        self._listener.close()
        super().stop()


def shared_socket(arguments: Sequence[str]) -> socket.socket | None:
    """The listening socket that this receiver was started with; None: it opens its own."""
    for argument in arguments:
        if argument.startswith(SHARED):
            return socket.socket(fileno=int(argument.removeprefix(SHARED)))
    return None


def _service(settings: Settings, number: int, listener: socket.socket) -> Service:
    return Service(
        f"receiver-{number}",
        RECEIVER,
        (*processes.module("ledger.receiver"), f"{SHARED}{listener.fileno()}"),
        processes.environment(settings),
        takes_hangup=True,
        inherits=(listener.fileno(),),
    )
