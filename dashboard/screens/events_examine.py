"""What is in quarantine is examined again: asked for here, done by a receiver by the configuration of now."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import components, session
from dashboard.screens.events_words import moment
from dashboard.words import many
from ledger.kept import examining
from ledger.views import kept as views_kept
from ledger.views.kept import Quarantined

EVERY_S = 1.0
BECAME = {
    "event": "An event now",
    "known": "A known event",
    "conflict": "A conflict",
    "no_event": "Still none",
}


def became(kept: Quarantined) -> str:
    """What came of the last time; the reason may hold words of strangers."""
    if kept.asked_at is None:
        return "–"
    if kept.result is None:
        return "Waits for a receiver"
    return BECAME[kept.result] + (f": {kept.why_not}" if kept.why_not else "")


def offer(rows: Sequence[Quarantined]) -> None:
    """All of a list's page at once, each on its own record."""
    kept = [row for row in rows if row.bytes is not None]
    if kept and session.chosen().role in examining.ASKERS:
        with st.container(horizontal=True, vertical_alignment="center"):
            pressed = st.button(f"Examine these {len(kept)} again", icon=":material/restart_alt:")
            st.caption(
                "After the configuration was put right. What becomes an event leaves this list.",
                width="content",
            )
        if pressed:
            _ask(kept)


def draw(kept: Quarantined) -> None:
    """One: what came of it, and the button."""
    st.subheader("Examined again", anchor=False)
    _told(kept)
    waits = kept.asked_at is not None and kept.examined_at is None
    if waits:
        st.fragment(_waiting, run_every=EVERY_S)(kept.id)
    elif kept.bytes is not None and kept.settled_at is None and session.chosen().role in examining.ASKERS:
        with st.container(horizontal=True, vertical_alignment="center"):
            pressed = st.button("Examine again", icon=":material/restart_alt:", key=f"examine_{kept.id}")
            st.caption("Reads its bytes by the configuration that the receiver has now.", width="content")
        if pressed:
            _ask([kept])


def _told(kept: Quarantined) -> None:
    if kept.examined_at is not None:
        components.told(f"At {moment(kept.examined_at, kept.now)} UTC:", became(kept))
    elif kept.asked_at is not None:
        st.caption(f"Asked for at {moment(kept.asked_at, kept.now)} UTC. The next free receiver reads it.")
    else:
        st.caption("Not yet.")
    if kept.event_id is not None and st.button(
        f"Open event {kept.event_id}", icon=":material/arrow_forward:"
    ):
        st.query_params.pop("quarantined", None)
        st.query_params["event"] = str(kept.event_id)
        st.rerun()


def _waiting(quarantine_id: int) -> None:
    """Until a receiver has looked."""
    now = session.read(lambda tx: views_kept.quarantined(tx, quarantine_id))
    if now is None or now.examined_at is not None:
        st.rerun()


def _ask(rows: Sequence[Quarantined]) -> None:
    ids, before = [row.id for row in rows], [row.examined_at for row in rows]
    result = session.act(
        examining.EXAMINE,
        ids[0],
        lambda tx, act: examining.ask(tx, ids, act),
        form=session.form_id(examining.EXAMINE, ids, before),
        entity="quarantine",
    )
    if isinstance(result, session.Done):
        st.toast(
            f"Asked for: {many(len(ids), 'content')}. A receiver reads them.", icon=":material/check_circle:"
        )
        st.rerun()
    components.outcome(result)
