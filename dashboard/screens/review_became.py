"""What became of a send after its provider accepted it, recipient by recipient. Accepted is not delivered."""

from __future__ import annotations

from datetime import datetime

import streamlit as st

from dashboard import components, session
from dashboard.colours import State
from dashboard.words import clock, many, provider
from ledger.evidence.notices import What
from ledger.verdict import VerdictWord
from ledger.views import notices as views_notices
from ledger.views.notices import Said, Standing
from ledger.views.review import Send

WORDS: dict[What, tuple[str, State]] = {
    What.SENT: ("➤ left the provider", "working"),
    What.DELIVERED: ("▲ delivered", "done"),
    What.BOUNCED: ("✕ bounced", "broken"),
    What.COMPLAINED: ("! complained", "person"),
    What.REJECTED: ("✕ rejected after it was accepted", "broken"),
}
RECIPIENTS_SHOWN = 20


def draw(send: Send) -> None:
    """Nothing while nothing was told and it is not known to have gone out."""
    standings = session.read(lambda tx: views_notices.of_action(tx, send.id))
    if not standings and (send.state != "sent" or send.finding.verdict is not VerdictWord.WAS_SENT):
        return
    st.subheader("What became of it", anchor=False)
    if not standings:
        st.caption(f"Accepted by {provider(send.provider)}. No notice of delivery has come.")
    chips(standings, send.now)


def chips(standings: tuple[Standing, ...], now: datetime) -> None:
    """One line a recipient: the last that happened to them."""
    for standing in standings[:RECIPIENTS_SHOWN]:
        word, tone = WORDS[standing.now.what]
        components.chip_line(word, tone, standing.recipient or "all recipients", about(standing, now))
    if len(standings) > RECIPIENTS_SHOWN:
        st.caption(f"And {many(len(standings) - RECIPIENTS_SHOWN, 'more recipient')}.")


def about(standing: Standing, now: datetime) -> str:
    """When, in the provider's words why, and what had happened before; some of it comes from outside."""
    before = [f"{WORDS[one.what][0][2:]} {_at(one, now)}" for one in standing.said[:-1][-3:]]
    parts = [
        f"{_at(standing.now, now)} UTC",
        standing.now.detail,
        "; before: " + ", ".join(before) if before else "",
    ]
    return ", ".join(filter(None, parts[:2])) + parts[2]


def _at(said: Said, now: datetime) -> str:
    return clock(said.occurred_at, now)
