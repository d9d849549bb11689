"""What is sent cannot take the receiver's memory: its peak under everything at once, as the kernel noted it."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ledger import payload
from tests import fix_receiver as fix
from tests.fix_receiver import LIMIT, Receiver, Start

CONNECTIONS, RSS_BYTES_MAX = 64, 200_000_000


def _padded(n: int, pad: bytes) -> bytes:
    head = b'{"id":"%d","type":"paid","pad":"' % n
    return head + pad * ((LIMIT - len(head) - 2) // len(pad)) + b'"}'


def _many(n: int, value: bytes, times: int) -> bytes:
    return b'{"id":"%d","type":"paid","all":[' % n + b",".join([value] * times) + b"]}"


def _list(n: int) -> bytes:
    return (
        b"["
        + b",".join(b'{"id":"%d %d","type":"t","p":"%s"}' % (n, i, b"b" * 900) for i in range(5000))
        + b"]"
    )


# At a limit, of the body, its values, its elements; or over one.
HOSTILE: list[Callable[[int], bytes]] = [
    lambda n: _padded(n, b"a"),
    lambda n: _padded(n, "é€🎉".encode()),
    lambda n: _padded(n, b"\\u00e9"),
    lambda n: _many(n, b"1e9", payload.VALUES_MAX - 9),
    lambda n: _many(n, b'{"":0}', payload.VALUES_MAX // 2 - 9),
    _list,
    lambda n: _many(n, b"[]", LIMIT // 3 - 20),
    lambda n: b"[" * LIMIT,
    lambda n: b"a" * (LIMIT + 1),
]


def _send(receiver: Receiver, n: int) -> int:
    """The answer's status; 0 where a busy machine gave none in time, or the line was closed while more was to come."""
    try:
        return _answer(receiver, n)
    except OSError:
        return 0


def _answer(receiver: Receiver, n: int) -> int:
    """In turn as it should be, forged, and compressed."""
    body, port = HOSTILE[n % len(HOSTILE)](n), receiver.port
    if n % 3 == 0:
        return fix.quick_post(port, "shop", body, fix.shop(body))
    if n % 3 == 1:
        return fix.quick_post(port, "shop", body, fix.shop(b"another"))
    headers = {"X-Signature": fix.signature(body), "Content-Encoding": "gzip"}
    return fix.quick_post(port, "packed", gzip.compress(body, 1), headers)


def test_the_receiver_stays_under_200_mb_whatever_is_sent(receivers: Start) -> None:
    """503 is an answer too: there is no room at the moment, and the sender asks again."""
    receiver = receivers(anew=True)
    with fix.growth(receiver) as grown, ThreadPoolExecutor(CONNECTIONS) as senders:
        resident = fix.resident_bytes(receiver)
        answers = Counter(senders.map(lambda n: _send(receiver, n), range(CONNECTIONS)))
    assert set(answers) <= {0, 200, 202, 400, 401, 413, 503}, answers
    assert resident + grown.bytes < RSS_BYTES_MAX
    assert receiver.shop(b'{"id":"after","type":"t"}') == 202
