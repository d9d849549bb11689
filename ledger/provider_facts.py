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
    other content. `can_be_asked`: whether it can say what became of a send. `address`: of its API, where it publishes one.
    `sent_from`: what of an e-mail says from where it goes out, whichever of them is set first. `ids`: an inbox is an id
    there, and need not be an address. `to_one`: it takes one recipient, and no cc, bcc or reply-to. `wants_to`: cc and bcc
    alone do not do."""

    label: str
    key_window_s: float | None = None
    busy: str = ""
    mismatch: str = ""
    can_be_asked: bool = True
    address: str = ""
    sent_from: tuple[str, ...] = ("inbox", "sender")
    ids: bool = True
    to_one: bool = False
    wants_to: bool = True

    @property
    def tells_apart(self) -> bool:
        """Whether a key with other content has an answer of its own, as far as it is published."""
        return self.busy != self.mismatch


FACTS = {
    "agentmail": Facts(
        "AgentMail", 86_400.0, "409 conflict", "409 conflict", address="https://api.agentmail.to"
    ),
    "inboxili": Facts(
        "Inboxili",
        can_be_asked=False,
        address="https://api.inboxili.com/api/v1",
        sent_from=("sender",),
        ids=False,
        to_one=True,
    ),
    "mailera": Facts("Mailera", 86_400.0, "409", "409"),
    "smtp": Facts("SMTP", can_be_asked=False, sent_from=("sender", "inbox"), ids=False, wants_to=False),
}
