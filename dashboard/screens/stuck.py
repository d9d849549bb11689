"""Stuck work: what is stuck, why, and will it free itself?"""

from __future__ import annotations

import streamlit as st

from dashboard import charts, held, paging, session
from dashboard.components import age_caption, database_gone, mode, too_slow
from dashboard.screens import (
    stuck_acts,
    stuck_filters,
    stuck_one,
    stuck_read,
    stuck_second,
    stuck_table,
    stuck_words,
)
from dashboard.screens.stuck_read import Kept
from dashboard.words import many
from ledger.errors import TooSlow
from ledger.views import LEASES_MAX
from ledger.views.stuck_found import SEGMENTS, Segment

NAMES: dict[Segment, str] = {
    "past": "Past its lease",
    "aside": "Set aside",
    "unhandled": "Nobody handles",
    "waiting": "Waiting too long",
}
CHART_PX = 150


def page() -> None:
    title = st.empty()
    try:
        now = stuck_read.kept()
    except TooSlow:
        title.title("This was too much to look through.", anchor=False)
        too_slow()
        stuck_filters.draw(stuck_read.wanted())
        return
    title.title(stuck_words.stands(now.sizes, now.page.around, stuck_read.pace()), anchor=False)
    held.notices(session.figures().figures)
    _top(now)
    stuck_second.panels(now)
    stuck_filters.draw(now.asked[1])
    stuck_table.draw(now, stuck_read.pace())
    stuck_acts.bar(now)
    paging.foot("stuck", now.page.rows[-1].place if now.page.more else None, turned=stuck_read.turned)
    _hands()
    stuck_one.open_asked(now)


def _top(now: Kept) -> None:
    """The segments, the way for those without a mouse, and how old all of it is."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.session_state["stuck_segment"] = now.asked[0]
        st.segmented_control(
            "Show",
            SEGMENTS,
            required=True,
            format_func=lambda name: _segment(name, now),
            label_visibility="collapsed",
            key="stuck_segment",
            on_change=_show_segment,
        )
        stuck_table.offer_oldest(now)
        if st.button("Read again", icon=":material/refresh:", type="tertiary", key="stuck_read_again"):
            st.session_state.pop("stuck_told", None)
            stuck_read.again()
            st.rerun()
        st.fragment(_ticking, run_every=session.refresh_s())(now)


def _segment(name: Segment, now: Kept) -> str:
    return f"{NAMES[name]} · {stuck_words.counted(getattr(now.sizes, name))}"


def _show_segment() -> None:
    st.query_params["show"] = st.session_state["stuck_segment"]
    stuck_read.from_the_start()


def _ticking(now: Kept) -> None:
    """How old the rows are. Reads them anew when something came or went, unless somebody is at work on them."""
    glance = session.figures()
    was_gone = st.session_state.get("stuck_was_gone", False)
    st.session_state["stuck_was_gone"] = glance.gone_since is not None
    if was_gone != (glance.gone_since is not None):
        st.rerun()  # buttons go off, or on
    if glance.gone_since is not None:
        database_gone(glance.gone_since, now.age_s, session.refresh_s())
        return
    at_work = stuck_read.chosen() or st.query_params.get("event") or st.session_state.get("stuck_told")
    if glance.figures and glance.figures.stuck != st.session_state.get("drawn_stuck") and not at_work:
        stuck_read.again()
        st.rerun()
    with st.container(horizontal=True, horizontal_alignment="right"):
        age_caption(now.age_s, "Read")


# ── The work in hand ──────────────────────────────────────────────────────────────────────────────────


def _hands() -> None:
    leases = session.leases().figures
    if not leases:
        return
    lease_s = session.house().settings.worker.lease_s
    left, right = st.columns([3, 2])
    with left.container(border=True, gap="xxsmall"):
        st.markdown("**Work in hand, by age**")
        n = f"The oldest {LEASES_MAX} leases" if len(leases) == LEASES_MAX else many(len(leases), "lease")
        past = sum(lease.age_s > lease_s for lease in leases)
        figure = charts.lease_ages(leases, lease_s, mode())
        figure.update_layout(height=CHART_PX)
        alt = f"Age of each piece of work in hand, by worker; {past} past {lease_s:g} seconds"
        charts.draw(figure, "stuck_leases", alt)
    right.caption(
        f"{n} of {lease_s:g} s since the last sign. A circle is in time; a diamond should have been renewed by now; "
        "a cross is past its lease, and another worker takes over."
    )
    charts.soon()
