"""A notice where nothing is sent: by the whole ledger until a person releases it, or by an account until its pause is over."""

from __future__ import annotations

import streamlit as st

from dashboard.components import told
from dashboard.words import clock_s, many, named, span
from ledger.views import Snapshot

NAMED_MAX = 5


def notices(now: Snapshot | None) -> None:
    """Nothing while everything may be sent."""
    if now is None:
        return
    if now.held:
        st.error(_held(now), icon=":material/front_hand:")
        told("Why nothing is sent:", now.held)
    if now.paused:
        st.warning(_paused(now), icon=":material/pause_circle:")
        for pause in now.paused[:NAMED_MAX]:
            told(
                f"Until {clock_s(pause.paused_until)} UTC, since {span(pause.since_s)}:",
                f"{pause.account}. {pause.reason}",
            )


def needs(now: Snapshot) -> list[str]:
    """For a heading: `sending is held`, `1 account is paused`."""
    held = ["sending is held"] if now.held else []
    return held + ([many(len(now.paused), "account is paused", "accounts are paused")] if now.paused else [])


def _held(now: Snapshot) -> str:
    waiting = many(now.approved, "send waits", "sends wait")
    return f"**Nothing is sent**, and {waiting}. When the other one is off for good, release it: nottwice release."


def _paused(now: Snapshot) -> str:
    one = len(now.paused) == 1
    who = f"Account {named(now.paused[0].account)} is" if one else f"{len(now.paused)} accounts are"
    return f"**{who} paused.** Sends wait and lose nothing; when a pause is over, one of them tries."
