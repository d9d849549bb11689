"""Ports that nobody uses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ports import free_ports


@pytest.fixture(scope="session")
def unused_ports() -> Callable[[int], list[int]]:
    """`free_ports`, for tests."""
    return free_ports


@pytest.fixture
def unused_port(unused_ports: Callable[[int], list[int]]) -> int:
    return unused_ports(1)[0]
