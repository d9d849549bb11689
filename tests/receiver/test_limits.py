"""The limits of the front door: how long it waits for a body, and how much it holds in hand."""

from __future__ import annotations

import gzip
import random

from tests import fix_receiver as fix
from tests.fix_receiver import Rows, Start

EVENT = b'{"id":"e1","type":"paid"}'
ROOM = "[receiver]\nbody_bytes_max = 750\nin_hand_bytes_max = 1000\n"


def test_a_slow_body_is_given_up(receivers: Start, rows: Rows) -> None:
    receiver = receivers(fix.CONFIG + "[receiver]\nanswer_within_s = 0.3\n")
    answer = receiver.raw(fix.head(fix.shop(EVENT), f"Content-Length: {len(EVENT)}"), EVENT[:5])
    assert answer.split()[1] == b"408"
    assert rows("SELECT count(*) FROM nottwice.events") == [(0,)]


def test_more_bodies_than_hands_are_turned_away(receivers: Start) -> None:
    """A body that is inflated is in hand twice: as it came, and plain. Each time by itself, others find room."""
    receiver = receivers(fix.CONFIG + ROOM)
    plain = b'{"id":0,"type":"paid","pad":"%s"}' % random.Random(0).randbytes(310).hex().encode()
    coded = gzip.compress(plain)
    assert 300 < len(coded) < len(plain) < 750 and len(coded) + len(plain) > 1000
    headers = {"X-Signature": fix.signature(plain), "Content-Encoding": "gzip"}
    refused = receiver.post("packed", coded, headers)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert [receiver.shop(b'{"id":%d,"type":"paid","pad":"%s"}' % (i, b"a" * 650)) for i in range(4)] == [
        202
    ] * 4
