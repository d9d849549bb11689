"""Ports that nobody uses."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest


def free_ports(count: int) -> list[int]:
    """That many different ports of the loopback address, free a moment ago."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@pytest.fixture(scope="session")
def unused_ports() -> Callable[[int], list[int]]:
    """`free_ports`, for tests."""
    return free_ports


@pytest.fixture
def unused_port(unused_ports: Callable[[int], list[int]]) -> int:
    return unused_ports(1)[0]
