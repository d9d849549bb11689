"""Mailera: as the source is configured, since nothing of it is published but a type's name."""

from __future__ import annotations

from ledger.settings import SourceSettings
from ledger.simulated import Sending, configured
from ledger.simulated.configured import new_secret as new_secret

KIND = "mailera"
TYPE = "message.received"  # its maker's article


def example(source: SourceSettings, secret: str, number: int) -> bytes:
    return configured.example(source, secret, number, type_=TYPE)


def headers(source: SourceSettings, sending: Sending, body: bytes) -> dict[str, str]:
    return configured.headers(source, sending, body, type_=TYPE)
