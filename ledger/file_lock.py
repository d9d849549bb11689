"""A lock on a file, which the kernel drops when the last process that holds it ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path, *, wait: bool = True) -> Iterator[int | None]:
    """Holds the lock and gives the file's descriptor; None at once when it is held and `wait` is false.

    A child process that inherits the descriptor holds the lock too, and goes on holding it after this block.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor if _acquire(descriptor, wait) else None
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, wait: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
