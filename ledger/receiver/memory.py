"""Memory that large bodies took goes back to the system as soon as they are stored.

glibc keeps what is freed for later: an arena a thread, and after the first large block is freed it takes the next
ones from there too. A receiver that was sent sixty bodies at their limit stayed 100 MB larger for it (measured).
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

# malloc.h of glibc; setting the threshold also stops it from adapting.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
LARGE_BYTES = 262_144


def return_large_blocks() -> None:
    """For this process, from here on; before it starts threads. Does nothing where the C library is another."""
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(M_TRIM_THRESHOLD, 4 * LARGE_BYTES)
        mallopt(M_ARENA_MAX, 1)
