"""The rows of a plan: of each whether it runs, why not, and who would get mail."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard import components, paging
from dashboard.colours import PILLS
from dashboard.screens import reprocess_picks
from ledger.payload import shown
from ledger.records.reprocess import Listed

ROWS = paging.ROWS


def start() -> None:
    """Another list: its first page."""
    paging.start("rerun_plan")


def draw(listed: Sequence[Listed]) -> None:
    """Those that stay first: they say why."""
    rows = sorted(listed, key=lambda row: not row.refusal)
    first = int(paging.place("rerun_plan") or 0)
    pills = PILLS[components.mode()]
    text = st.column_config.TextColumn
    will = st.column_config.MultiselectColumn(options=["Yes", "No"], color=[pills["done"], pills["waiting"]], width=84)  # fmt: skip
    st.dataframe(
        frame(rows[first : first + ROWS]),
        hide_index=True,
        row_height=38,
        height="content",
        column_config={
            "Event": text(width=100),
            "Will it run": will,
            "Why not": text(width=310),
            "Recipient": text(width=210),
            "What": text(width=170),
            "Key": text(width=230),
        },
    )
    if len(rows) > ROWS:
        _paging(first, len(rows))


def frame(rows: Sequence[Listed]) -> pd.DataFrame:
    """The most telling columns first: at 900 px the rest scrolls."""
    return pd.DataFrame(
        {
            "Event": [_about(row) for row in rows],
            "Will it run": [["No" if row.refusal else "Yes"] for row in rows],
            "Why not": [row.refusal for row in rows],
            "Recipient": [_to(row) for row in rows],
            "What": [shown(row.what) for row in rows],
            "Key": [shown(row.key) for row in rows],
        }
    )


def _about(row: Listed) -> str:
    if row.event_id is not None:
        return f"{row.event_id}"
    pick = reprocess_picks.picked().get(row.name)
    return f"{pick.event_id}, {row.called}" if pick else row.called


def _to(row: Listed) -> str:
    """Nobody, when it is worked out again; what is sent again goes to those it went to."""
    pick = reprocess_picks.picked().get(row.name)
    if row.event_id is not None or pick is None:
        return "nobody"
    return shown(", ".join(pick.recipients)) or "hidden from your role"


def _paging(first: int, n: int) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        paging.buttons("rerun_plan", first + ROWS if first + ROWS < n else None)
        st.caption(f"Rows {first + 1:,} to {min(first + ROWS, n):,} of {n:,}.", width="content")
