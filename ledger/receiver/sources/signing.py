"""What signatures have in common: keys, codes, comparisons in constant time, the age of a timestamp. Pure."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Literal

SECRET_BYTES_MIN = 8


def matches_any(
    given: Sequence[bytes], secrets: Sequence[bytes], *signed: bytes, algorithm: str = "sha256"
) -> bool:
    """Whether one of the signatures is the HMAC of the signed parts under one of the secrets.

    Every pair is compared, each in constant time.
    """
    message = b"".join(signed)
    expected = [_mac(secret, message, algorithm) for secret in secrets]
    return sum([hmac.compare_digest(g, e) for g in given for e in expected]) > 0


def _mac(secret: bytes, message: bytes, algorithm: str) -> bytes:
    """Not hmac.digest(): it gives up the GIL for however short a message, and a writer's thread takes it for long."""
    mac = _keyed(secret, algorithm).copy()
    mac.update(message)
    return mac.digest()


@lru_cache(maxsize=256)
def _keyed(secret: bytes, algorithm: str) -> hmac.HMAC:
    """To be copied: its key is worked in once."""
    return hmac.new(secret, digestmod=algorithm)


def decoded(text: str, encoding: Literal["hex", "base64"]) -> list[bytes]:
    """The signature that a header spells; none where it is not spelled so. Never raises."""
    try:
        if encoding == "hex":  # fromhex() alone would pass over blanks
            return [bytes.fromhex(text)] if text.isalnum() else []
        return [base64.b64decode(text, validate=True)]
    except (binascii.Error, ValueError):
        return []


def fresh(timestamp: str, received_at: datetime, tolerance_s: float, *, unit: str = "s") -> bool:
    """Whether a Unix time is within the tolerance, both ways: the window for a replay is twice that.

    Digits only: no sign, no blank, no fraction. Seconds are never guessed to be milliseconds.
    """
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 15):
        return False
    signed_at = int(timestamp) / (1000 if unit == "ms" else 1)
    return abs(received_at.timestamp() - signed_at) <= tolerance_s
