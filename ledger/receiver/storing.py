"""Stores what is handed in, in its order and in whole batches, as durably as the front door; one that the database

cannot hold goes to quarantine alone. Nothing is judged here: a batch that was stored before is duplicates.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.errors import Unavailable
from ledger.receiver.lane import REFUSED_BY_THE_DATABASE
from ledger.receiver.sources.adapter import Item
from ledger.receiver.writer import Writer, is_about_content, is_about_one, is_lock_timeout
from ledger.records import Acceptance, Delivery, Unusable

LOCK_TRIES = 20  # an event whose row somebody holds for so long is no matter of patience


def store(writer: Writer, items: Sequence[Item]) -> list[Acceptance]:
    """What became of each, once all are durable. Raises Unavailable; what was stored before it is stored."""
    try:
        return writer.store(items)
    except Unavailable:
        raise
    except Exception as error:
        if len(items) > 1 and is_about_one(error):
            middle = len(items) // 2
            return store(writer, items[:middle]) + store(writer, items[middle:])
        if is_lock_timeout(error):
            return _wait(writer, items)
        if is_about_content(error) and isinstance(item := items[0], Delivery):
            return writer.store(
                [Unusable(item.namespace, item.source, 0, REFUSED_BY_THE_DATABASE, item.body)]
            )
        raise


def _wait(writer: Writer, items: Sequence[Item]) -> list[Acceptance]:
    """Each try waits for the lock itself."""
    for _ in range(LOCK_TRIES):
        try:
            return writer.store(items)
        except Exception as error:
            if not is_lock_timeout(error):
                raise
    raise Unavailable(
        "An event is held by somebody else's transaction. Nothing more was stored; try again later."
    )
