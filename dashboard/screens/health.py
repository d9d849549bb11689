"""Health: can the house keep up? The heading is the first line of `nottwice check`; the table is all that it looks at."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from dashboard import charts, month_charts, session
from dashboard.colours import PILLS, State
from dashboard.components import age_caption, database_gone, mode, told, too_slow
from dashboard.house import CHARTS_EVERY
from dashboard.screens import health_acts
from dashboard.words import harmless, many
from ledger.check import HEALTHY, Finding, Level, Line
from ledger.figures.samples import Sample

TOLD_MAX = 5
STATES: dict[Level, tuple[str, State]] = {
    Level.HEALTHY: ("✓ in order", "done"),
    Level.WARNING: ("! warning", "person"),
    Level.CRITICAL: ("✕ critical", "broken"),
}


def page() -> None:
    every_s = session.refresh_s()
    glance = session.health()
    now = glance.figures if glance.gone_since is None else None
    health_acts.begin(now)
    st.fragment(_answer, run_every=every_s)()
    health_acts.draw(now)
    st.fragment(_table, run_every=every_s)()
    st.fragment(_charts, run_every=every_s * CHARTS_EVERY)()
    charts.soon()


# ── Every two seconds; read anew every ten ────────────────────────────────────────────────────────────


def _answer() -> None:
    glance = session.health()
    now, gone = glance.figures, glance.gone_since is not None
    if glance.gone_since is not None:
        database_gone(glance.gone_since, glance.age_s if now else None, session.refresh_s())
    if glance.slow:
        too_slow()
    if now is None:
        return
    if health_acts.are_old(now, gone=gone):
        st.rerun()
    title = as_title(now.heading)
    st.title(f"As last read: {title}" if gone else title, anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(_counted(now.found), width="content")
        st.space("stretch")
        age_caption(glance.age_s, "Read" if gone else "Live, read")
    with st.container(gap="xxsmall"):
        for one in now.found[1 : 1 + TOLD_MAX]:
            told(f"{one.level.name.capitalize()}:", one.what)


def as_title(first_line: str) -> str:
    """The first line of `nottwice check`, as a sentence of a page."""
    if first_line == HEALTHY:
        return "Healthy. Nothing needs anybody."
    return harmless(first_line[:1].upper() + first_line[1:])


def _counted(found: tuple[Finding, ...]) -> str:
    if not found:
        return "As nottwice check says it."
    worse = sum(one.level is Level.CRITICAL for one in found)
    return f"As nottwice check says it: {many(worse, 'critical finding')}, {many(len(found) - worse, 'warning')}."


def _table() -> None:
    """What is found comes first; the rest stays in its order."""
    now = session.health().figures
    if now is None:
        return
    rows = sorted(now.lines, key=lambda line: -line.level)
    columns = _columns()
    st.dataframe(
        frame(rows), hide_index=True, row_height=38, height="content", key="health", column_config=columns
    )


def frame(rows: list[Line]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Check": [line.topic.value for line in rows],
            "Now": [line.now for line in rows],
            "Limit": [line.limit for line in rows],
            "State": [[STATES[line.level][0]] for line in rows],
            "What to do": [line.todo for line in rows],
        }
    )


def _columns() -> dict[str, ColumnConfig]:
    text, pills = st.column_config.TextColumn, PILLS[mode()]
    states = st.column_config.MultiselectColumn(
        options=[word for word, _ in STATES.values()],
        color=[pills[state] for _, state in STATES.values()],
        width=110,
    )
    return {
        "Check": text(width=160),
        "Now": text(width=220),
        "Limit": text(width=120),
        "State": states,
        "What to do": text(width=460),
    }


# ── Every ten seconds ─────────────────────────────────────────────────────────────────────────────────


def _charts() -> None:
    month = session.month().figures
    if not month:
        st.caption(
            "How large the ledger is, and its oldest transaction, are charted here once a worker has measured them."
        )
        return
    left, right = st.columns([3, 2])
    with left.container(border=True, height="stretch", gap="xxsmall"):
        st.markdown("**Size of tables, 30 days**")
        st.caption(_grown(month))
        charts.draw(
            month_charts.sizes(month, mode()), "sizes", "Size of tables by kind, hour by hour over 30 days"
        )
    with right.container(border=True, height="stretch", gap="xxsmall"):
        limit_s = session.house().settings.alerts.transaction_s
        st.markdown("**Oldest transaction, 30 days**")
        st.caption(
            f"The longest of each hour. While one is open, vacuum removes nothing; the limit is {limit_s:g} s."
        )
        figure = month_charts.transactions(month, limit_s, mode())
        charts.draw(figure, "transactions", "The longest transaction of each hour over 30 days")


def _grown(month: tuple[Sample, ...]) -> str:
    now, added = month[-1].bytes / 1e6, (month[-1].bytes - month[0].bytes) / 1e6
    days = (month[-1].hour - month[0].hour).total_seconds() / 86_400
    return f"With indexes, {now:,.0f} MB now, {added:+,.0f} MB in {days:.1f} days."
