"""The ports that tests get stay theirs."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.ports import free_ports

CHOSEN_BY_THE_KERNEL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_none_is_handed_out_twice_in_a_row_nor_taken_by_somebody_who_asks_for_any() -> None:
    first, again = free_ports(20), free_ports(20)
    assert len({*first, *again}) == 40
    lowest = int(CHOSEN_BY_THE_KERNEL.read_text().split()[0])
    assert lowest <= 12_000 or max(*first, *again) < lowest


def test_one_that_is_taken_is_passed_over() -> None:
    with ExitStack() as stack:
        (one,) = free_ports(1)
        for port in (one + 1, one + 2):
            with suppress(OSError):  # somebody else's already
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
        assert not {one + 1, one + 2} & set(free_ports(3))
