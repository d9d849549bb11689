"""What is known of each kind of provider, in one place: the configuration, the desk and the manual read it here. Pure.

Sources: AgentMail's documentation (idempotency, errors); Inboxili's author says outright that it has no key; Mailera's
article (a key for 24 h, `GET /sends/{id}`; how a 409 is spelled is not published, and configurable); RFC 5321 for SMTP,
which knows neither keys nor look-ups.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Facts:
    """`label`: as it writes itself. `key_window_s`: how long it keeps a key; None: it has none, and an unknown send is
    never tried again by itself. `busy` and `mismatch`: how it answers a key that is under way, and one that came with
    other content. `can_be_asked`: whether it can say what became of a send. `address`: of its API, where it publishes one."""

    label: str
    key_window_s: float | None = None
    busy: str = ""
    mismatch: str = ""
    can_be_asked: bool = True
    address: str = ""

    @property
    def tells_apart(self) -> bool:
        """Whether a key with other content has an answer of its own, as far as it is published."""
        return self.busy != self.mismatch


FACTS = {
    "agentmail": Facts(
        "AgentMail", 86_400.0, "409 conflict", "409 conflict", address="https://api.agentmail.to"
    ),
    "inboxili": Facts("Inboxili", can_be_asked=False, address="https://api.inboxili.com/api/v1"),
    "mailera": Facts("Mailera", 86_400.0, "409", "409"),
    "smtp": Facts("SMTP", can_be_asked=False),
}
