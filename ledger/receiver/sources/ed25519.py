"""Signatures that are checked with a public key, by the package `cryptography`: only who has such a sender needs it.

Ed25519 as RFC 8032 has it. The package is imported when a key is given, so that an installation without it starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def public_key(key: bytes) -> Ed25519PublicKey:
    """Raises ValueError for bytes that are no key, ImportError where the package is not installed."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(key)


def verifies_any(keys: Sequence[Ed25519PublicKey], given: Sequence[bytes], message: bytes) -> bool:
    """Whether one of the signatures is one key's own over these bytes. A public key keeps no secret, so time tells nothing."""
    return any(_verifies(key, signature, message) for key in keys for signature in given)


def _verifies(key: Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True
