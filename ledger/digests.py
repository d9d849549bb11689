"""How parts become one digest, and how a rendered request is spelled. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

JsonObject = Mapping[str, Any]

# The version of the rules by which keys and contents become digests, kept with each event: raised by the release that
# changes one, because digests of two versions say nothing about each other.
KEY_RULE = 1


def digest_of(*parts: bytes | str) -> bytes:
    """SHA-256 of the parts, each behind its length: `("ab", "c")` and `("a", "bc")` never meet."""
    spelled: list[bytes] = []
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        spelled += (len(raw).to_bytes(8, "big"), raw)
    return hashlib.sha256(b"".join(spelled)).digest()


def canonical_json(value: Any) -> bytes:
    """The one spelling in which rendered requests are stored and compared."""
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()
