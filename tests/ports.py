"""Ports for tests, free now and until somebody listens there.

One that the kernel chose and that was given back may be anybody's a moment later: every connection of this machine
takes its own from the same range. So these lie below it, and each process of a run goes through a slice of its own.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from zlib import crc32

FIRST, SLICES, EACH = 12_000, 16, 1_250  # Linux chooses from 32,768 on


def free_ports(count: int) -> list[int]:
    """That many different ports of the loopback address; each comes again only after all others of the slice."""
    found: list[int] = []
    while len(found) < count:
        if _is_free(port := next(_own_slice())):
            found.append(port)
    return found


@cache
def _own_slice() -> Iterator[int]:
    run = crc32(os.environ.get("TESTS_RUN_HOME", str(os.getpid())).encode())
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first, begin = FIRST + (run + process) % SLICES * EACH, random.randrange(EACH)
    return cycle([*range(first + begin, first + EACH), *range(first, first + begin)])


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False
