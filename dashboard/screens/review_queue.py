"""The queue: what waits for a person, the most pressing first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from dashboard import paging, session
from dashboard.colours import PILLS, State
from dashboard.components import age_caption, database_gone, mode
from dashboard.letters import odd_letters
from dashboard.lists import listed
from dashboard.screens import reprocess_words, review_causes, review_decided
from dashboard.words import COSTS, key_words, many, named, provider, span, what
from ledger.payload import shown
from ledger.views import queue as views_queue
from ledger.views import reprocess as views_reprocess
from ledger.views import review as views_review
from ledger.views.queue import QueueRow
from ledger.views.review import Sizes

ROWS = paging.ROWS
SEGMENTS = ("uncertain", "to_approve", "second_person", "decided_today")
NAMES = {
    "uncertain": "Uncertain",
    "to_approve": "To approve",
    "second_person": "Second person",
    "decided_today": "Decided today",
}
GLYPHS = {
    "nobody_knows": "? Nobody knows",
    "may_have_gone": "▲ May have gone out",
    "safe_to_try_again": "↻ Safe to try again",
    "was_sent": "▲ It went out",
    "was_not_sent": "▼ It did not go out",
    "looking": "… Looking for evidence",
    "proposed": "○ Not sent yet",
}
PILL_STATES: tuple[State, ...] = ("person", "person", "working", "done", "waiting", "waiting", "waiting")
ORDER = (
    "A key that ends within the hour comes first, then the costliest mistake, then the longest wait. "
    "Tick a row's box to open it. ⚠ marks letters that only look Latin."
)
EMPTY = {
    "uncertain": "A send lands here when nobody can know whether it went out.",
    "to_approve": "A send of a kind that asks for approval waits here until a person has read it.",
    "second_person": "A send with a new key waits here until somebody else agrees.",
}


def draw() -> None:
    sizes = session.read(views_review.sizes)
    segment = st.session_state.setdefault("segment", "uncertain")
    rows: list[QueueRow] = []
    if segment != "decided_today":
        rows = session.read(
            lambda tx: views_queue.queue(tx, segment, after=paging.place("review"), most=ROWS + 1)
        )
    st.title(answer(sizes), anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.segmented_control(
            "Show",
            SEGMENTS,
            required=True,
            format_func=lambda name: f"{NAMES[name]} · {int(waiting_in(sizes, name))}",
            label_visibility="collapsed",
            key="segment",
            on_change=paging.start,
            args=("review",),
        )
        first = "Start with the first" if session.may_decide() else "Open the first"
        if rows and st.button(first, type="primary", icon=":material/arrow_forward:", icon_position="right"):
            _open(rows[0].id)
        st.fragment(_ticking, run_every=session.refresh_s())(sizes)
    review_causes.draw(segment)
    if segment == "second_person":
        _runs()
    if segment == "decided_today":
        review_decided.draw(sizes)
    elif rows:
        _table(rows, segment)
    else:
        _empty(segment, sizes)


def waiting_in(sizes: Sizes, segment: str) -> int:
    """How much stands in a segment: for a second person, runs too."""
    n = int(getattr(sizes, segment))
    return n + sizes.runs if segment == "second_person" else n


def answer(sizes: Sizes) -> str:
    """The page's answer. The wait is that of the oldest among all that wait, as everybody's figures say."""
    waiting = sizes.uncertain + sizes.to_approve + sizes.second_person
    if not waiting:
        return "Nothing waits for a decision."
    figures = session.figures().figures
    oldest_s = figures.oldest_review_s if figures else 0.0
    oldest = f" The oldest has waited {span(oldest_s)}." if oldest_s >= 60 else ""
    return f"{many(waiting, 'send waits', 'sends wait')} for a decision.{oldest}"


def _ticking(drawn: Sizes) -> None:
    """The age of what is drawn. Draws the page anew when something came or went, and then only."""
    glance = session.figures()
    if glance.gone_since is not None:
        database_gone(glance.gone_since, glance.age_s, session.refresh_s())
        return
    now = glance.figures
    if now and (now.needs_review, now.proposed) != (drawn.uncertain + drawn.second_person, drawn.to_approve):
        st.rerun()
    with st.container(horizontal=True, horizontal_alignment="right"):
        age_caption(glance.age_s, "Live, counted")


def _runs() -> None:
    """Runs that wait for a second person stand in Reprocess; here is the way there."""
    page = st.session_state["pages"]["reprocess"]
    for run in session.read(views_reprocess.waiting):
        words = f"{reprocess_words.things(run.mode, reprocess_words.to_go(run))}: {named(run.asked_by)} asks for a second person"
        st.page_link(page, label=words, icon=":material/replay:", query_params={"run": f"{run.id}"})


# ── The table ─────────────────────────────────────────────────────────────────────────────────────────


def _table(rows: list[QueueRow], segment: str) -> None:
    page, more = rows[:ROWS], len(rows) > ROWS
    listed("send", frame(page, segment), [row.id for row in page], _columns(), mark=f"queue_{segment}")
    st.caption(ORDER)
    paging.foot("review", page[-1].place if more else None)


def frame(rows: Sequence[QueueRow], segment: str) -> pd.DataFrame:
    """What tells one send from another first: at 900 px only the last column scrolls."""
    now = datetime.now(UTC)
    return pd.DataFrame(
        {
            "If it goes twice": [COSTS[row.cost] for row in rows],
            "What": [what(row.kind) for row in rows],
            "About": [shown(row.about) for row in rows],
            "To": [recipients_words(row.recipients) for row in rows],
            "What we know": [[GLYPHS[_known(row, segment)]] for row in rows],
            "Waiting": [span(row.waiting_s) for row in rows],
            "Safe key": [_key(row, segment, now) for row in rows],
        }
    )


def recipients_words(recipients: tuple[str, ...]) -> str:
    """The first and how many more, with a sign before letters that only look Latin."""
    first = recipients[0] if recipients else "nobody"
    more = f" and {len(recipients) - 1} more" if len(recipients) > 1 else ""
    return ("⚠ " if odd_letters(first) else "") + shown(first) + more


def _known(row: QueueRow, segment: str) -> str:
    if segment == "to_approve":
        return "proposed"
    if row.looking_s > 0:
        return "looking"
    known = row.verdict or "nobody_knows"
    return "may_have_gone" if known == "nobody_knows" and row.points_to_sent else known


def _key(row: QueueRow, segment: str, now: datetime) -> str:
    if segment == "to_approve":
        return "not used yet"
    until = None if row.key_left_s is None else now + timedelta(seconds=row.key_left_s)
    return key_words(provider(row.provider), row.key_left_s, until, now)


def _columns() -> dict[str, ColumnConfig]:
    text, pills = st.column_config.TextColumn, PILLS[mode()]
    known = st.column_config.MultiselectColumn(
        options=list(GLYPHS.values()), color=[pills[state] for state in PILL_STATES], width=164
    )
    return {
        "If it goes twice": text(width=94),
        "What": text(width=96),
        "About": text(width=114),
        "To": text(width=166),
        "What we know": known,
        "Waiting": text(width=78, alignment="right"),
        "Safe key": text(width=160),
    }


def _open(action_id: int) -> None:
    st.query_params["send"] = str(action_id)
    st.rerun()


# ── Nothing waits ─────────────────────────────────────────────────────────────────────────────────────


def _empty(segment: str, sizes: Sizes) -> None:
    with st.container(border=True):
        st.markdown(f"**{EMPTY[segment]}**")
        st.caption(
            "Most settle by themselves: a late answer or a delivery notice comes in, or the same key is tried again. "
            f"Today people decided {many(sizes.decided_today, 'time')}."
        )
