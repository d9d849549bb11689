"""Records made by place are the records that their own call makes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from ledger.records import ClaimedEvent, Deadline, Event, EventLease, Mode, Run
from ledger.records.by_place import by_place
from worker.handlers import Propose

RUN = Run(Mode.RECOMPUTE, 2, 3, 4, Deadline())
EVENT = Event(7, "acme", "shop", "sale", "k", b"x", datetime.now(UTC), None, RUN, 5, 6)
LEASE = EventLease(7, uuid4())
CLAIMED = ClaimedEvent(LEASE, EVENT, 3, 4, True, True, datetime.now(UTC))


@pytest.mark.parametrize("record", [RUN, EVENT, LEASE, CLAIMED], ids=lambda one: type(one).__name__)
def test_a_record_made_by_place_is_the_same_record(record: Any) -> None:
    made = by_place(type(record))(*(getattr(record, one.name) for one in fields(record)))
    assert type(made) is type(record) and made == record and hash(made) == hash(record)
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(record)[0].name, None)


def test_what_a_handler_proposes_with_stays_as_frozen() -> None:
    made: Any = by_place(Propose)(None, EVENT, None, [], [])
    assert made.event is EVENT and made.made == []
    with pytest.raises(FrozenInstanceError):
        made.event = None


def test_every_field_is_given() -> None:
    with pytest.raises(TypeError):
        by_place(EventLease)(7)
