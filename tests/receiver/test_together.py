"""What comes at one time is read together, and each is what it would have been alone."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.payload import Malformed
from ledger.receiver.sources.adapter import Arrival, Forged, Headers, Identity
from ledger.receiver.sources.generic import Generic
from ledger.receiver.sources.together import read_together
from ledger.records import Delivery, Unusable
from tests import fix_receiver as fix
from tests.receiver.test_sources import NOW, generic

GOOD, ANOTHER = b'{"id": "a", "type": "t"}', b'{"id": "b", "type": "t"}'
LIST = b'[{"id": "c", "type": "t"}, {"type": "t"}, {"id": "d", "type": "t"}]'
NO_ID, NO_JSON, OURS = b'{"type": "t"}', b"{", b'{"id": "e", "type": "ours"}'


class Faulty(Generic):
    """Fails at one event, by a fault of ours."""

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        found = super().identity(document, arrival)
        if found.type == "ours":
            raise KeyError("ours")
        return found


def arrival(body: bytes, signed: bytes | None = None) -> Arrival:
    headers: Headers = {"x-signature": fix.signature(body if signed is None else signed)}
    return Arrival(headers, body, NOW)


def shapes(found: Any) -> list[str]:
    if isinstance(found, Exception):
        return [type(found).__name__]
    return [item.event_key if isinstance(item, Delivery) else f"kept {item.index}" for item in found]


def test_of_many_read_together_each_is_what_it_is_alone() -> None:
    one = generic()
    source = Faulty(one.name, one.settings, (fix.SHOP_SECRET,))
    came = [
        arrival(GOOD),
        arrival(ANOTHER, signed=GOOD),
        arrival(NO_JSON),
        arrival(b""),
        arrival(b"[]"),
        arrival(LIST),
        arrival(NO_ID),
        arrival(OURS),
        arrival(ANOTHER),
    ]
    found = read_together(source, came)
    assert [shapes(each) for each in found] == [
        ["t a"],
        ["Forged"],
        ["Malformed"],
        ["Malformed"],
        [],
        ["t c", "kept 1", "t d"],
        ["kept 0"],
        ["kept 0"],
        ["t b"],
    ]
    for each, alone in zip(found, came, strict=True):
        if isinstance(each, Exception):
            with pytest.raises((Forged, Malformed)) as raised:
                source.read(*alone)
            assert (type(raised.value), str(raised.value)) == (type(each), str(each))
        else:
            assert source.read(*alone) == each
    assert isinstance(found[7], list) and isinstance(found[7][0], Unusable)
    assert found[7][0].body == OURS and "fault in Not Twice" in found[7][0].reason
