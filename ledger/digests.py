"""How parts become one digest, and how a rendered request is spelled. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

JsonObject = Mapping[str, Any]


def digest_of(*parts: bytes | str) -> bytes:
    """SHA-256 of the parts, each behind its length: `("ab", "c")` and `("a", "bc")` never meet."""
    whole = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        whole.update(len(raw).to_bytes(8, "big") + raw)
    return whole.digest()


def canonical_json(value: Any) -> bytes:
    """The one spelling in which rendered requests are stored and compared."""
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()
