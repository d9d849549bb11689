"""Ports that nobody uses."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def unused_ports() -> Callable[[int], list[int]]:
    """That many different ports of the loopback address, free a moment ago."""

    def find(count: int) -> list[int]:
        probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        ports = [probe.getsockname()[1] for probe in probes]
        for probe in probes:
            probe.close()
        return ports

    return find


@pytest.fixture
def unused_port(unused_ports: Callable[[int], list[int]]) -> int:
    return unused_ports(1)[0]
