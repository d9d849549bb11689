"""What a person says with a decision: what they looked at, and why. Ready words say both with one press; own ones go with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import streamlit as st

from dashboard import components
from ledger.records import Decision

LOOKED_AT = ("Provider's own log", "Customer told us", "Our own records", "Only this page")
# Each states a fact that whoever presses it has seen, and names where: ready words of opinion would say nothing.
SEEN_IN = {
    "It is in the provider's log": LOOKED_AT[0],
    "The customer has it": LOOKED_AT[1],
    "It is not in the provider's log": LOOKED_AT[0],
    "The customer did not get it": LOOKED_AT[1],
    "The provider's log has this number, with this subject": LOOKED_AT[0],
}
OUT, OUT_TOO, NOT_OUT, NOT_OUT_EITHER, THIS_ONE = SEEN_IN
READY = {
    Decision.WAS_SENT: (OUT, OUT_TOO),
    Decision.RESEND_SAME_KEY: (NOT_OUT, NOT_OUT_EITHER),
    Decision.RESEND_NEW_KEY: (NOT_OUT, NOT_OUT_EITHER),
}
ENOUGH = "What did you find? One of these is enough; else say it below."


@dataclass(frozen=True, slots=True)
class Said:
    """As the audit keeps it."""

    looked: tuple[str, ...] = ()
    why: str = ""


def asked(mark: str, decision: Decision, question: str) -> Said:
    """The fields of a form; `question` is about what was looked at."""
    found = None
    if decision in READY:  # a key for each: what was found for one decision is not found for another
        found = st.pills(ENOUGH, READY[decision], key=f"found_{decision}_{mark}")
    looked = st.pills(question, LOOKED_AT, selection_mode="multi", key=f"looked_{mark}")
    return said(looked, found, components.reason("Why? The audit keeps your words.", key=f"why_{mark}"))


def this_one(mark: str) -> Said:
    """The fields of a form about a hint: that was looked at, and perhaps more."""
    found = st.pills(ENOUGH, (THIS_ONE,), key=f"found_{mark}")
    label = "Why is it this one? The audit keeps your words."
    return said((), found, components.reason(label, key=f"own_{mark}"))


def said(looked: Iterable[str], found: str | None, own: str) -> Said:
    """Ready words first; where they were seen is among what was looked at."""
    if found is None:
        return Said(tuple(looked), own)
    return Said(tuple(dict.fromkeys((*looked, SEEN_IN[found]))), f"{found}. {own.strip()}".rstrip())
