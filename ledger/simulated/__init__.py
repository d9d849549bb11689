"""What each kind's provider would post: one file a kind, written from its documents and not from our adapter.

A module in this folder with a `KIND` is one; what its functions do is said in `Speaker`. `nottwice simulate` and the demo
post with them, and tests hold them against the providers' published vectors.
"""

from __future__ import annotations

import importlib
import pkgutil
import secrets
from dataclasses import dataclass
from functools import cache
from typing import Protocol, cast

from ledger.errors import Misconfigured
from ledger.settings import SourceSettings


@dataclass(frozen=True, slots=True)
class Sending:
    """One delivery: with which secret, under which delivery id (copies of one event share it), when."""

    secret: str
    delivery: str
    at_s: int


class Speaker(Protocol):
    """What a module of this folder offers. `new_secret(source) -> str` as well, where not any text can be a secret."""

    KIND: str

    def example(self, source: SourceSettings, secret: str, number: int) -> bytes:
        """An invented event of the source's kind, different each time."""

    def headers(self, source: SourceSettings, sending: Sending, body: bytes) -> dict[str, str]:
        """What the provider would send with these bytes."""


@cache
def speakers() -> dict[str, Speaker]:
    """By kind."""
    modules = [
        importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
    ]
    return {module.KIND: cast("Speaker", module) for module in modules if hasattr(module, "KIND")}


def speaker(source: SourceSettings) -> Speaker:
    """Raises Misconfigured for a kind that nobody here can speak for."""
    found = speakers().get(source.kind)
    if found is None:
        known = ", ".join(sorted(speakers()))
        raise Misconfigured(f"Nobody here can post as kind {source.kind} does; known are {known}.")
    return found


def new_secret(source: SourceSettings) -> str:
    """A fresh secret in the form that the kind demands."""
    own = getattr(speakers().get(source.kind), "new_secret", None)
    return own(source) if own else secrets.token_urlsafe(32)
