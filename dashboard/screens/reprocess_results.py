"""What became of each row of a run, and what its handlers proposed that is not what stands."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard import paging, session
from dashboard.colours import PILLS
from dashboard.components import mode
from dashboard.screens import events_body
from dashboard.screens import reprocess_words as words
from dashboard.words import many, what
from ledger.payload import shown
from ledger.records.reprocess import Found, RunMode
from ledger.views import reprocess as views_reprocess
from ledger.views.reprocess import Finding, Row, Run

ROWS = paging.ROWS
READ_MAX = 5
HIDDEN = "hidden from your role"


def draw(run: Run) -> None:
    role, pages = session.chosen().role, f"rerun_rows_{run.id}"
    after = paging.place(pages) or 0
    rows = session.read_soon(lambda tx: views_reprocess.rows(tx, run.id, role, after=after, limit=ROWS + 1))
    st.subheader("Row by row", anchor=False)
    _table(run, rows[:ROWS])
    paging.foot(pages, rows[ROWS - 1].id if len(rows) > ROWS else None)
    if words.is_asked(run) and run.mode is RunMode.REPEAT:
        _to_read(rows)
    found = session.read_soon(lambda tx: views_reprocess.findings(tx, run.id, role, limit=ROWS + 1))
    if found:
        _findings(found)


def _table(run: Run, rows: Sequence[Row]) -> None:
    pills, text = PILLS[mode()], st.column_config.TextColumn
    result = st.column_config.MultiselectColumn(
        options=list(words.RESULTS), color=[pills[tone] for tone in words.RESULTS.values()], width=116
    )
    st.dataframe(
        frame(run, rows),
        hide_index=True,
        row_height=38,
        height="content",
        column_config={
            "Row": text(width=104),
            "Result": result,
            "Why": text(width=320),
            "What came of it": text(width=170),
            "Recipient": text(width=190),
            "What": text(width=150),
            "Key": text(width=220),
        },
    )


def frame(run: Run, rows: Sequence[Row]) -> pd.DataFrame:
    """The most telling columns first: at 900 px the rest scrolls. A run of events sends to nobody."""
    columns = {
        "Row": [words.number(row) for row in rows],
        "Result": [[words.ROW_STATES[row.state]] for row in rows],
        "Why": [shown(row.reason) for row in rows],
        "What came of it": [words.came_of(row) for row in rows],
        "Recipient": [_to(row.recipients) for row in rows],
        "What": [shown(row.what) for row in rows],
        "Key": [shown(row.key) for row in rows],
    }
    if run.mode is not RunMode.REPEAT:
        del columns["Recipient"]
    if not words.has_begun(run):
        del columns["Result"], columns["What came of it"]
    return pd.DataFrame(columns)


def _to_read(rows: Sequence[Row]) -> None:
    """Where the text of each can be read before anybody agrees to it."""
    _texts(tuple(row.finding_id for row in rows if row.finding_id is not None))
    page = st.session_state["pages"]["review"]
    with st.container(horizontal=True):
        for row in rows[:READ_MAX]:
            if row.action_id is not None:
                query = {"send": str(row.action_id)}
                st.page_link(
                    page, label=f"Read send {row.action_id}", icon=":material/visibility:", query_params=query
                )


def _to(recipients: tuple[str, ...] | None) -> str:
    return HIDDEN if recipients is None else shown(", ".join(recipients)) or "no longer kept"


# ── What was found ────────────────────────────────────────────────────────────────────────────────────


def _findings(found: Sequence[Finding]) -> None:
    shown_now = found[:ROWS]
    st.subheader("What their handlers would send now", anchor=False)
    st.caption(
        "None of it was sent, and none goes out by itself. "
        + (
            f"The first {many(ROWS, 'finding')} are here."
            if len(found) > ROWS
            else "Sending it takes two people."
        )
    )
    st.dataframe(findings_frame(shown_now), hide_index=True, row_height=38, height="content")
    _texts(tuple(one.id for one in shown_now if not one.content_gone))
    events = ", ".join(str(one) for one in sorted({one.event_id for one in shown_now}))
    page = st.session_state["pages"]["reprocess"]
    st.page_link(page, label="Pick what to send again", icon=":material/arrow_forward:", query_params={"event": events})  # fmt: skip


def _texts(finding_ids: tuple[int, ...]) -> None:
    """What was found is no send yet, so it stands in no other place; the audit has it before it is shown."""
    for finding_id in finding_ids[:READ_MAX]:
        mark = f"finding_{finding_id}"
        found = events_body.revealed(mark)
        if found is not None and isinstance(found[0], bytes):
            events_body.body(mark, found[0], found[1])
            continue
        label = f"Show what finding {finding_id} would send"
        events_body.ask(mark, label, lambda why, id_=finding_id: session.reveal(id_, why, "finding"))  # type: ignore[misc]


def findings_frame(found: Sequence[Finding]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Event": [f"{one.event_id}" for one in found],
            "Found": [_found(one) for one in found],
            "What": [what(one.kind) for one in found],
            "Key": [shown(one.action_key) for one in found],
            "To": [_to(one.recipients) for one in found],
        }
    )


def _found(one: Finding) -> str:
    return "would be new" if one.found is Found.NEW else f"would differ from send {one.action_id}"
