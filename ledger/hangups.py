"""SIGHUP while a process is still starting: it waits, and so neither ends the process nor is lost.

Until a process listens, the system's own answer to SIGHUP is to end it. Held, the signal stays pending, over an exec
as well, and reaches whoever listens first. Only what reads its configuration again holds it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

HANGUP = frozenset({signal.SIGHUP})


def hold() -> None:
    """From now on, in this thread and in what it starts, SIGHUP waits."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANGUP)


def take() -> None:
    """To be called by whoever has set a handler: one that waited comes now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANGUP)


@contextmanager
def held() -> Iterator[None]:
    """What is started within begins with SIGHUP held."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANGUP)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
