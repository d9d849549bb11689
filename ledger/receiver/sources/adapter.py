"""What a source's adapter is: bytes and headers in, deliveries out, or a reason why not."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from ledger import payload
from ledger.records import Delivery, Unusable, digest_of
from ledger.settings import SourceSettings


class Forged(Exception):
    """The request is not authentic. Which check failed is nobody's business: the answer is the same for all."""


class Adapter(Protocol):
    """One source. `read` checks authenticity on the exact bytes before it looks at anything else.

    Raises Forged (401), payload.Malformed (400); an authentic element without a usable key becomes Unusable.
    """

    def __init__(self, name: str, settings: SourceSettings, secrets: Sequence[str]) -> None: ...

    def read(self, headers: Mapping[str, str], body: bytes, now: datetime) -> list[Delivery | Unusable]: ...


@dataclass(frozen=True, slots=True)
class Identity:
    """What an adapter says of one event. `key` parts are length-prefixed into the digest."""

    type: str
    key: tuple[str, ...]
    occurrence: tuple[str, ...] | None = None
    delivery_id: str = ""
    occurred_at: datetime | None = None


def delivery(
    name: str, settings: SourceSettings, found: Identity, document: Any, body: bytes, content_type: str
) -> Delivery | Unusable:
    """The delivery of one whole body, or Unusable when its words cannot be stored."""
    if not all(payload.is_storable(text) for text in (*found.key, found.type, *(found.occurrence or ()))):
        return Unusable(
            settings.namespace, name, 0, "Its key or type has characters that are not text.", body
        )
    return Delivery(
        namespace=settings.namespace,
        source=name,
        type=found.type,
        event_key=" ".join(found.key),
        key_digest=digest_of(name, *found.key),
        body=body,
        content_digest=hashlib.sha256(payload.canonical(document, settings.ignored_members)).digest(),
        occurrence_digest=digest_of(name, *found.occurrence) if found.occurrence else None,
        content_type=content_type[:200],
        delivery_id=found.delivery_id[:500],
        occurred_at=found.occurred_at,
        ignored=found.type in settings.ignored_types,
    )


def unusable(name: str, settings: SourceSettings, reason: str, body: bytes) -> Unusable:
    return Unusable(settings.namespace, name, 0, reason, body)


def matches_any(
    given: Sequence[bytes],
    secrets: Sequence[bytes],
    signed: bytes,
    algorithm: Callable[..., Any] = hashlib.sha256,
) -> bool:
    """Whether one of the signatures is the HMAC under one of the secrets; every pair is compared, in constant time."""
    expected = [hmac.new(secret, signed, algorithm).digest() for secret in secrets]
    return sum(hmac.compare_digest(g, e) for g in given for e in expected) > 0


def fresh(timestamp: str, now: datetime, tolerance_s: float) -> bool:
    """Whether a Unix time in seconds is within the tolerance, both ways (the replay window is twice that)."""
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
        return False
    return abs(now.timestamp() - int(timestamp)) <= tolerance_s


def moment(value: Any) -> datetime | None:
    """A time from a payload: ISO 8601, or Unix seconds; None for anything else. Display only, never a lease."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return at if at.tzinfo else at.replace(tzinfo=UTC)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**11:
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError):
        pass
    return None
