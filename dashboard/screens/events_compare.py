"""Two contents under one key: where they differ, and what they say there once somebody has asked to see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pandas as pd
import streamlit as st

from dashboard import components, session
from dashboard.screens import events_body
from dashboard.screens.events_words import moment, size
from dashboard.words import named
from ledger.errors import TooSlow
from ledger.kept import conflicts
from ledger.kept.readable import spelled, value_at, value_words
from ledger.payload import Malformed, parse, shown
from ledger.views import kept as views_kept
from ledger.views.kept import PATHS_MAX, Change, Conflict

MASKED, MISSING = "•••", "– not there"
VALUE_CHARACTERS_MAX = 300


def draw(conflict: Conflict) -> None:
    st.subheader("What differs", anchor=False)
    if conflict.first_bytes is None or conflict.bytes is None:
        st.caption("Cannot compare: their contents are no longer kept. Their digests said that they differ.")
        return
    mark = f"conflict_{conflict.id}"
    found = events_body.revealed(mark)
    both = found[0] if found is not None else None
    if session.chosen().role in session.REVEALERS:
        _table(_changes(conflict), both)
    st.caption(f"First {size(conflict.first_bytes)}, later {size(conflict.bytes)}.")
    if found is None or not isinstance(both, tuple):
        event_id = conflict.event_id
        events_body.ask(
            mark, "Show both contents", lambda why: session.reveal_both(conflict.id, event_id, why)
        )
        return
    first, later = st.columns(2, gap="medium")
    with first:
        st.markdown("**First**")
        events_body.body(f"{mark}_first", both[0], found[1])
    with later:
        st.markdown("**Later**")
        events_body.body(f"{mark}_later", both[1], found[1])


def _changes(conflict: Conflict) -> list[Change]:
    """None for what cannot be compared, or not while somebody waits."""
    source = session.house().settings.sources.get(conflict.source)
    ignored = source.ignored_members if source else ()
    try:
        return session.read_soon(lambda tx: views_kept.changes(tx, conflict.id, ignored))
    except TooSlow:
        return []


def _table(changes: Sequence[Change], both: Any) -> None:
    if not changes:
        st.caption("They cannot be compared part by part, or not in a moment. Their digests differ.")
        return
    documents = tuple(_document(raw) for raw in both) if both else None
    st.dataframe(frame(changes, documents), hide_index=True, row_height=38, height="content")
    if len(changes) >= PATHS_MAX:
        st.caption(f"Only the first {PATHS_MAX} places are listed.")


def frame(changes: Sequence[Change], documents: tuple[Any, Any] | None) -> pd.DataFrame:
    """Values stay masked until both documents are given."""
    first, later = documents or (None, None)
    return pd.DataFrame(
        {
            "Path": [shown(spelled(change.path)) for change in changes],
            "First": [_value(change.in_first, first, change, documents) for change in changes],
            "Later": [_value(change.in_later, later, change, documents) for change in changes],
        }
    )


def _value(there: bool, document: Any, change: Change, revealed: object) -> str:
    if not there:
        return MISSING
    if revealed is None:
        return MASKED
    return shown(value_words(value_at(document, change.path))[:VALUE_CHARACTERS_MAX])


def _document(raw: bytes) -> Any:
    try:
        return parse(raw)
    except Malformed:
        return None


# ── Marking ───────────────────────────────────────────────────────────────────────────────────────────


def mark_as_seen(conflict: Conflict) -> None:
    result = st.session_state.pop(f"marked_{conflict.id}", None)
    if result is not None:
        components.outcome(result, "conflict")
    if conflict.acknowledged_at is not None:
        words = f"**Marked as seen by {named(conflict.seen_by or '')}, at {moment(conflict.acknowledged_at)} UTC.**"
        st.success(words, icon=":material/check:")
    elif session.chosen().role in conflicts.MARKERS:
        with st.container(border=True):
            label = "Anything to say about it? The audit keeps your words."
            st.text_input(label, key=f"why_{conflict.id}", max_chars=500)
            key = f"mark_{conflict.id}"
            form = session.form_id("conflict", conflict.id, conflict.version, conflicts.SEEN)
            st.button(
                "Mark as seen",
                key=key,
                type="primary",
                icon=":material/check:",
                on_click=_mark,
                args=(conflict, form),
            )
            st.caption("Nothing is done with either content; it leaves the list of new ones.")


def _mark(conflict: Conflict, form: UUID) -> None:
    """As it was drawn, before it is drawn anew: a press on a stale page is answered, not swallowed."""
    result = session.act(
        conflicts.SEEN,
        conflict.id,
        lambda tx, act: conflicts.mark_seen(tx, conflict.id, conflict.version, act),
        form=form,
        why=str(st.session_state.get(f"why_{conflict.id}", "")),
        entity="conflict",
    )
    if not isinstance(result, session.Done):
        st.session_state[f"marked_{conflict.id}"] = result
