"""What people decided today; above it, what later proof contradicts, whenever it was decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import paging, session
from dashboard.lists import listed, offer_first
from dashboard.words import clock_s, many, named, what
from ledger.payload import shown
from ledger.views import decided as views_decided
from ledger.views.decided import CONTRADICTED_DAYS, Decided
from ledger.views.review import Sizes


def draw(sizes: Sizes) -> None:
    if sizes.contradicted:
        _contradicted(sizes)
    place, most = paging.place("review"), paging.ROWS
    rows = session.read(lambda tx: views_decided.today(tx, after=place, most=most + 1))
    if not rows:
        st.markdown("Nobody has decided anything since midnight UTC.")
        return
    page = rows[:most]
    listed("send", frame(page), [row.action_id for row in page], _columns(), mark="decided")
    st.caption(
        "The newest comes first. Tick a row's box to open its send, and to open again what a person closed."
    )
    offer_first("Open the newest", "send", page[0].action_id, mark="decided")
    paging.foot("review", page[-1].place if len(rows) > most else None)


def _contradicted(sizes: Sizes) -> None:
    st.warning(
        f"**{many(sizes.contradicted, 'decision was', 'decisions were')} contradicted later.** Proof came in that says "
        f"otherwise. Told for {CONTRADICTED_DAYS} days, or until somebody decides anew.",
        icon=":material/warning:",
    )
    rows = session.read(views_decided.contradicted)
    table = frame(rows)
    table.insert(2, "But", [otherwise(row) for row in rows])
    listed("send", table, [row.action_id for row in rows], _columns(), mark="contradicted")


def otherwise(decided: Decided) -> str:
    """What the proof says."""
    return "It did not go out after all" if decided.state == "sent" else "It went out after all"


def frame(rows: Sequence[Decided]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "At (UTC)": [_at(row) for row in rows],
            "Did": [("⚠ " if row.contradicted else "") + row.act for row in rows],
            "Who": [named(row.who) for row in rows],
            "What": [what(row.kind) for row in rows],
            "About": [shown(row.about) for row in rows],
            "Why": [shown(row.why) for row in rows],
            "Looked at": [", ".join(row.looked_at) for row in rows],
            "Entry": [f"{row.audit_id:,}" for row in rows],
        }
    )


def _at(row: Decided) -> str:
    return f"{row.at.day} {row.at:%b} {clock_s(row.at)}"


def _columns() -> dict[str, Any]:
    text = st.column_config.TextColumn
    return {
        "At (UTC)": text(width=112),
        "Did": text(width=190),
        "But": text(width=180),
        "Who": text(width=105),
        "What": text(width=100),
        "About": text(width=130),
        "Why": text(width=220),
        "Looked at": text(width=130),
        "Entry": text(width=70, alignment="right"),
    }
