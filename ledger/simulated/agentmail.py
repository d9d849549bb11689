"""AgentMail: a message that was received, delivered by Svix."""

from __future__ import annotations

from ledger.settings import SourceSettings
from ledger.simulated import Sending, examples
from ledger.simulated.svix import headers_under
from ledger.simulated.svix import new_secret as new_secret

KIND = "agentmail"


def example(_source: SourceSettings, _secret: str, number: int) -> bytes:
    sender = f"Customer {number} <customer{number}@example.com>"
    return examples.message_received(sender, f"A question ({number})", "How does this work?")


def headers(_source: SourceSettings, sending: Sending, body: bytes) -> dict[str, str]:
    return headers_under("svix-", sending, body)
