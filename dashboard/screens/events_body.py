"""Bodies of strangers on demand: the audit has it before anything is shown, and text stays text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import streamlit as st

from dashboard import components, session
from dashboard.screens.events_words import size
from dashboard.words import clock_s, many
from ledger.kept.readable import CHARACTERS_MAX, CHARACTERS_SHOWN, HEX_BYTES_MAX, Readable, readable
from ledger.views import review as views_review

WHY = "Why do you read it? The audit keeps your words."


def ask(mark: str, label: str, show: Callable[[str], session.Result]) -> None:
    """A button that reveals; what it revealed stays with this session. Nothing is drawn for who may not."""
    if session.chosen().role not in session.REVEALERS:
        st.caption("Your role reads no contents.")
        return
    why_first, why = session.chosen().role in session.WHY_FIRST, ""
    if why_first:
        why = components.reason(WHY, key=f"read_{mark}")
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(label, icon=":material/visibility:", key=f"show_{mark}")
        st.caption("The audit notes who reads it.", width="content")
    if pressed and why_first and not why.strip():
        st.warning("Nothing was shown. Please say why.", icon=":material/edit:")
    elif pressed:
        _keep(mark, show(why))


def _keep(mark: str, result: session.Result) -> None:
    if isinstance(result, session.Done):
        st.session_state[f"body_{mark}"] = (result.value, session.read(views_review.now))
        st.rerun()
    components.outcome(result)


def revealed(mark: str) -> tuple[object, datetime] | None:
    """What this session was shown under this mark, and when."""
    found: tuple[object, datetime] | None = st.session_state.get(f"body_{mark}")
    return found


def body(mark: str, raw: bytes, at: datetime) -> None:
    """The bytes as text, with an end, however long they are."""
    whole = bool(st.session_state.get(f"whole_{mark}"))
    read = readable(raw, most=CHARACTERS_MAX if whole else CHARACTERS_SHOWN)
    st.code(read.text, language=None, wrap_lines=True, height=420 if len(read.text) > 1500 else "content")
    st.caption(f"{_what(read, whole)} Shown to you at {clock_s(at)} UTC; the audit notes it.")
    is_cut = not (read.whole or read.binary or whole)
    if is_cut and st.button(_more(read), key=f"all_{mark}", type="tertiary"):
        st.session_state[f"whole_{mark}"] = True
        st.rerun()


def _more(read: Readable) -> str:
    """Never "all" for what even then has an end."""
    return "Show all" if read.size_bytes <= CHARACTERS_MAX else f"Show {CHARACTERS_MAX:,} characters"


def _what(read: Readable, whole: bool) -> str:
    if read.binary:
        first = "" if read.whole else f" Its first {HEX_BYTES_MAX} bytes, as numbers."
        return f"{size(read.size_bytes)}. It is no text.{first}"
    if read.whole:
        return f"{size(read.size_bytes)}, all of it."
    most = CHARACTERS_MAX if whole else CHARACTERS_SHOWN
    return f"{size(read.size_bytes)}, of which the first {many(most, 'character')}."
