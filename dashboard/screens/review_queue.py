"""The queue: what waits for a person, the most pressing first."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.components import COST, VERDICT, clock, count, looks_alike, span
from dashboard.session import read
from ledger import desk as views
from ledger.desk import QueueRow

SEGMENTS = {
    "uncertain": "Uncertain",
    "to_approve": "To approve",
    "second_person": "Second person",
    "decided_today": "Decided today",
}
ORDER = "Keys with less than 1 h left first, then what costs most if it goes twice, then the longest wait."


def draw() -> None:
    sizes = read(views.queue_sizes)
    waiting = sizes["uncertain"] + sizes["to_approve"] + sizes["second_person"]
    rows = {s: read(lambda tx, s=s: views.queue(tx, s)) for s in ("uncertain",)}["uncertain"]
    oldest = max((r.waiting_s for r in rows), default=0.0)
    title = (
        f"{count(waiting, 'send waits', 'sends wait')} for a decision."
        if waiting
        else "Nothing waits for a decision."
    )
    st.title(title + (f" The oldest has waited {span(oldest)}." if oldest >= 60 else ""), anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        segment = st.segmented_control(
            "Which",
            list(SEGMENTS),
            default="uncertain",
            format_func=lambda s: f"{SEGMENTS[s]} · {sizes[s]}",
            label_visibility="collapsed",
            key="segment",
        )
        st.space("stretch")
        st.caption("times in UTC", width="content")
    if segment == "decided_today":
        _decided()
    else:
        _waiting(segment or "uncertain", sizes)


def _waiting(segment: str, sizes: dict[str, int]) -> None:
    rows = read(lambda tx: views.queue(tx, segment))
    if not rows:
        _empty(segment, sizes)
        return
    if st.button("Start with the first", type="primary", icon=":material/arrow_forward:"):
        _open(rows[0].id)
    generation = st.session_state.setdefault("generation", 0)
    table = st.dataframe(
        _frame(rows, segment),
        key=f"queue-{segment}-{generation}",
        hide_index=True,
        row_height=38,
        on_select="rerun",
        selection_mode="single-row",
        column_config={
            "What we know": st.column_config.TextColumn(width=170),
            "To": st.column_config.TextColumn(width=230),
        },
    )
    st.caption(ORDER + " Open a row by its box at the left, or by Shift+Space.")
    chosen = table.selection.rows  # type: ignore[attr-defined]
    if chosen and chosen[0] < len(rows):
        _open(rows[chosen[0]].id)


def _open(send_id: int) -> None:
    """By id; the table that was clicked is gone with its generation, so that no position outlives a change."""
    st.session_state["generation"] += 1
    st.query_params["send"] = str(send_id)
    st.rerun()


def _frame(rows: list[QueueRow], segment: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "If it goes twice": [COST[r.cost] for r in rows],
            "What": [r.kind.capitalize() for r in rows],
            "To": [_to(r) for r in rows],
            "Waiting": [span(r.waiting_s) for r in rows],
            "What we know": [_known(r, segment) for r in rows],
            "Safe key": [_key(r) for r in rows],
            "About": [r.about for r in rows],
            "Asked by": [r.requested_by or "" for r in rows],
        }
    ).drop(columns=[] if segment == "second_person" else ["Asked by"])


def _to(row: QueueRow) -> str:
    more = f" and {len(row.recipients) - 1} more" if len(row.recipients) > 1 else ""
    first = row.recipients[0] if row.recipients else "–"
    return ("⚠ " if looks_alike(first) else "") + first + more


def _known(row: QueueRow, segment: str) -> str:
    if segment == "to_approve":
        return "Waits to be approved"
    if row.looking_s > 0:
        return "… looking for evidence"
    return VERDICT[row.verdict or "nobody_knows"][2]


def _key(row: QueueRow) -> str:
    if row.key_left_s is None:
        return "none"
    return f"{span(row.key_left_s)} left" if row.key_left_s > 0 else "over"


def _empty(segment: str, sizes: dict[str, int]) -> None:
    words = {
        "uncertain": "A send lands here when nobody can know whether it went out.",
        "to_approve": "A send of a kind that asks for approval waits here until a person has read it.",
        "second_person": "A send with a new key waits here until somebody else agrees.",
    }
    with st.container(border=True):
        st.markdown(f"**Nothing here.** {words[segment]}")
        st.caption(f"Today {sizes['decided_today']} acts of people are on record.")


def _decided() -> None:
    rows = read(views.decided_today)
    if not rows:
        st.caption("Nobody has decided anything since midnight UTC.")
        return
    st.dataframe(
        pd.DataFrame(
            {
                "At": [clock(d.at) for d in rows],
                "Who": [d.who for d in rows],
                "Did": [d.act for d in rows],
                "Send": [d.action_id for d in rows],
                "About": [d.about for d in rows],
                "Now": [d.state.replace("_", " ") for d in rows],
                "Why": [d.why for d in rows],
                "Entry": [d.audit_id for d in rows],
            }
        ),
        hide_index=True,
        row_height=38,
        key="decided",
    )
    number = st.number_input("Open a send by its number", min_value=1, step=1, value=None, width=260)
    if number:
        st.query_params["send"] = str(int(number))
        st.rerun()
