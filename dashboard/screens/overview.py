"""Overview: is work moving, does anything need me?"""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from dashboard import charts
from dashboard.components import count, database_gone, span
from dashboard.session import database, person, settings
from ledger import desk as views
from ledger.desk import LeaseAge, Minute, Snapshot
from ledger.errors import Unavailable
from ledger.records import Role

STANDS_STILL_S = 30.0


@st.cache_data(ttl=1.8, show_spinner=False)
def shared_snapshot(role: str) -> Snapshot:
    """One question to the database for everybody who looks."""
    with database().transaction(Role(role)) as tx:
        return views.snapshot(tx, silent_s=settings().worker.lease_s)


@st.cache_data(ttl=8, show_spinner=False)
def _shared_charts(role: str) -> tuple[list[Minute], list[LeaseAge]]:
    with database().transaction(Role(role)) as tx:
        return views.minutes(tx), views.leases(tx)


def now_or_last() -> Snapshot | None:
    """The newest snapshot; while the database is away, the last one this session saw."""
    try:
        st.session_state["snapshot"] = shared_snapshot(person().role.value)
        st.session_state["gone"] = False
    except Unavailable:
        st.session_state["gone"] = True
    return st.session_state.get("snapshot")


def page() -> None:
    _live()


@st.fragment(run_every="2s")
def _live() -> None:
    s = now_or_last()
    age_s = (datetime.now(UTC) - s.at).total_seconds() if s else None
    if st.session_state.get("gone"):
        database_gone(age_s)
    if s is None:
        return
    st.title(heading(s), anchor=False)
    _links(s, age_s or 0.0)
    if not s.accepted_ever:
        _nothing_yet()
        return
    _figures(s)
    _states(s)
    _charts()


def heading(s: Snapshot) -> str:
    """The page's answer, as a sentence."""
    if not s.accepted_ever:
        return "Nothing has arrived yet."
    if not s.workers and s.pending:
        silent = min((age for _, age in s.silent_workers), default=0)
        return "Work stands still: " + (
            f"no worker has given a sign for {span(silent)}." if silent else "no worker runs."
        )
    needs = (
        [count(s.needs_review, "send waits for a person", "sends wait for a person")]
        if s.needs_review
        else []
    )
    stuck = s.failed + s.expired_leases + s.unhandled
    needs += [count(stuck, "piece of work is stuck", "pieces of work are stuck")] if stuck else []
    moving = "Work waits longer than it should." if s.oldest_pending_s > STANDS_STILL_S else "Work is moving."
    return f"{moving} {', '.join(needs) or 'Nothing needs you'}."


def _links(s: Snapshot, age_s: float) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if s.needs_review:
            label = count(s.needs_review, "send", "sends")
            st.page_link(
                st.session_state["pages"]["review"], label=f"Decide {label}", icon=":material/arrow_forward:"
            )
        st.space("stretch")
        st.caption(f"Live, counted {max(0, int(age_s))} s ago · times in UTC", width="content")


def _nothing_yet() -> None:
    st.caption(
        f"Providers post to http://this-host:{settings().receiver_port}/webhooks/SOURCE. To see it work:"
    )
    source = next(iter(settings().sources), "SOURCE")
    st.code(f"nottwice simulate {source} --copies 5", language=None)


def _figures(s: Snapshot) -> None:
    grid = st.grid(4, min_column_width=150, gap="small")

    def card(label: str, value: str, below: str, color: str) -> None:
        grid.metric(label, value, below, delta_color=color, delta_arrow="off", border=True, height="stretch")

    oldest = f"oldest {span(s.oldest_review_s)}" if s.needs_review else "nothing to decide"
    card(
        "Waiting for a person",
        count(s.needs_review, "send", "sends"),
        oldest,
        "orange" if s.needs_review else "gray",
    )
    card("Longest wait for a worker", f"{s.oldest_pending_s:.1f} s", f"{s.pending:,} events waiting", "gray")
    past = (
        f"{s.expired_leases} of {s.processing} past its lease"
        if s.expired_leases
        else f"{s.processing} in hand"
    )
    card("Longest in hand", f"{s.oldest_lease_s:.0f} s", past, "red" if s.expired_leases else "gray")
    silent = (
        f"{s.silent_workers[0][0]} silent for {span(s.silent_workers[0][1])}"
        if s.silent_workers
        else "all give signs"
    )
    total = s.workers + len(s.silent_workers)
    card(
        "Workers",
        f"{s.workers} of {total}" if s.silent_workers else f"{s.workers}",
        silent,
        "red" if s.silent_workers else "gray",
    )


def _states(s: Snapshot) -> None:
    today = s.sent_today + s.refused_today + s.closed_today
    cards = (
        (
            "Events now",
            [
                ("Waiting", s.pending - s.unhandled, "waiting"),
                ("In hand", s.processing, "working"),
                ("Set aside", s.failed, "broken"),
                ("Nobody handles", s.unhandled, "person"),
            ],
        ),
        (
            "Sends now",
            [
                ("To approve", s.proposed, "person"),
                ("Ready to go", s.approved, "waiting"),
                ("On the way", s.sending, "working"),
                ("Needs a decision", s.needs_review, "person"),
            ],
        ),
        (
            f"Today's {today:,} settled sends",
            [
                ("Taken by the provider", s.sent_today, "done"),
                ("Refused or failed", s.refused_today, "broken"),
                ("Closed by a person", s.closed_today, "waiting"),
            ],
        ),
    )
    for column, (title, rows) in zip(st.columns(3), cards, strict=True):
        with column.container(border=True, height="stretch", gap="xxsmall"):
            st.markdown(f"**{title}**")
            charts.bars(rows, f"bars-{title.split()[0]}")


def _charts() -> None:
    try:
        minutes, leases = st.session_state["charts"] = _shared_charts(person().role.value)
    except Unavailable:
        minutes, leases = st.session_state.get("charts", ([], []))
    left, right = st.columns([3, 2])
    with left.container(border=True, height="stretch", gap="xxsmall"):
        new, again = sum(m.new for m in minutes), sum(m.duplicates for m in minutes)
        share = 100 * again / (new + again) if new + again else 0.0
        done = minutes[-2].done if len(minutes) > 1 else 0
        st.markdown("**Deliveries per minute**")
        st.caption(
            f"{done:,} done in the last full minute · {share:.1f} % of the last hour were duplicates: "
            f"{again:,} of {new + again:,}"
        )
        charts.deliveries(minutes, "deliveries")
    with right.container(border=True, height="stretch", gap="xxsmall"):
        lease_s = settings().worker.lease_s
        most = f"oldest {len(leases)}" if len(leases) == views.LEASES_MAX else f"{len(leases)}"
        st.markdown("**Work in hand, by age**")
        st.caption(f"{most} leases of {lease_s:g} s. Past that without renewal, another worker takes over.")
        charts.lease_ages(leases, lease_s, "leases")
