"""What is known of a source: stated once beside its code, read by the door, and printed in docs/sources.md."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.settings.sources import Coded

CODED: dict[Coded, str] = {
    "refused": "refused with 415",
    "plain": "the signature covers the plain bytes",
    "coded": "the signature covers the compressed bytes",
}
CLOCKLESS = "none: nothing but the key protects against a replay"
LISTED = "a list holds one event an element; a bad element goes to quarantine, its neighbours do not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One kind of source, in words for people where it is a rule, as values where the code acts on it.

    Where the provider publishes nothing, say so: the next reader must not take a guess for a fact.
    """

    sender: str  # who posts, as people call it
    signature: str  # the scheme
    clock: str = CLOCKLESS
    key: str  # what makes the logical event
    subscription: str = "not part of the key"
    occurrence: str = "none"  # the second key, by which the same thing is found again under another event id
    type: str
    event_time: str = "none"
    resource_ids: str
    lists: bool = (
        False  # a body that is a list holds one event an element; else only `[]` is understood, as a ping
    )
    volatile: tuple[str, ...] = ()  # members that differ between honest retries: no conflict
    ignored: tuple[str, ...] = ()  # types that are completed on acceptance
    success: int = 200
    ack_s: float | None = None  # within which the sender wants its answer; None: not published
    retries: str = "not published"
    coded: Coded = "refused"  # a body with a Content-Encoding: refused, or which of its two forms was signed
    takes: frozenset[str] = frozenset()  # the options of [sources.NAME] that not every kind takes

    def rows(self) -> dict[str, str]:
        """The table of this source in docs/sources.md."""
        return {
            "signature": self.signature,
            "clock": self.clock,
            "key": self.key,
            "subscription": self.subscription,
            "occurrence key": self.occurrence,
            "type": self.type,
            "event time": self.event_time,
            "resource ids": self.resource_ids,
            "lists": LISTED if self.lists else "no",
            "volatile members": _listed(self.volatile),
            "ignored types": _listed(self.ignored),
            "success code": str(self.success),
            "answer within": "not published" if self.ack_s is None else f"{self.ack_s:g} s",
            "retries": self.retries,
            "compressed body": CODED[self.coded],
            "options": _listed(sorted(self.takes)),
        }

    def table(self) -> str:
        """The same as Markdown."""
        return "| | |\n|---|---|\n" + "".join(f"| {name} | {what} |\n" for name, what in self.rows().items())


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
