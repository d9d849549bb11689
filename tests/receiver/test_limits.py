"""The limits of the front door: how long it waits for a body, and how much it holds in hand."""

from __future__ import annotations

import socket

from tests import fix_receiver as fix
from tests.fix_receiver import Rows, Start, until

EVENT = b'{"id":"e1","type":"paid"}'
ROOM = "[receiver]\nbody_bytes_max = 750\nin_hand_bytes_max = 1000\nanswer_within_s = 40\n"


def test_a_slow_body_is_given_up(receivers: Start, rows: Rows) -> None:
    receiver = receivers(fix.CONFIG + "[receiver]\nanswer_within_s = 0.3\n")
    answer = receiver.raw(fix.head(fix.shop(EVENT), f"Content-Length: {len(EVENT)}"), EVENT[:5])
    assert answer.split()[1] == b"408"
    assert rows("SELECT count(*) FROM nottwice.events") == [(0,)]


def test_more_bodies_than_hands_are_turned_away(receivers: Start) -> None:
    """While one that is half sent takes most of the room, another is told to come again; then there is room for each."""
    receiver = receivers(fix.CONFIG + ROOM)
    bodies = [b'{"id":%d,"type":"paid","pad":"%s"}' % (i, b"a" * 650) for i in range(5)]
    head = fix.head(fix.shop(bodies[0]), f"Content-Length: {len(bodies[0])}")
    with socket.create_connection(("127.0.0.1", receiver.port)) as line:
        line.sendall(head + bodies[0][:-1])
        until(lambda: receiver.shop(bodies[0]) == 503)
        refused = receiver.post("shop", bodies[1], fix.shop(bodies[1]))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    until(lambda: receiver.shop(bodies[0]) == 202)
    assert [receiver.shop(body) for body in bodies] == [202] * 5
