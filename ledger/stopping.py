"""Ctrl-C and SIGTERM for a command that can be stopped at any moment, and says then how far it came."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Stopped(BaseException):
    """A person pressed Ctrl-C, or the machine wants us to end."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Within it either signal raises Stopped, at once. Enter it first: before that a signal ends us without a word."""

    def stop(number: int, _: object) -> None:
        raise Stopped(number)

    # Said outright: a shell's background job comes with SIGINT ignored.
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
