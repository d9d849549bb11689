"""What became no event: other content under a key that is taken, and what has no usable key or shape."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import components, paging, session
from dashboard.lists import listed
from dashboard.screens import events_body, events_compare, events_examine, events_foot, events_list
from dashboard.screens.events_words import counted, moment, size
from dashboard.words import many
from ledger.payload import shown
from ledger.views import kept as views_kept
from ledger.views.kept import Conflict, Quarantined, Sizes

ROWS = paging.ROWS
FIRST_STANDS = "Same key, other content. The first one stands; nothing was done with the later one."


# ── Lists ─────────────────────────────────────────────────────────────────────────────────────────────


def conflicts_answer(sizes: Sizes) -> str:
    if not sizes.conflicts:
        return "Every key came with one content."
    return f"{counted(sizes.conflicts)} {'key' if sizes.conflicts == 1 else 'times a key'} came with other content."


def conflicts() -> None:
    seen_too = st.toggle(
        "Also those marked as seen", key="conflicts_seen", on_change=paging.start, args=("events",)
    )
    place = paging.place("events")
    rows = session.read_soon(
        lambda tx: views_kept.conflicts(tx, seen_too=seen_too, after=place, most=ROWS + 1)
    )
    if not rows:
        with st.container(border=True):
            st.markdown("**A second content under the same key is kept here.**")
            st.caption("The first one stands. Nothing is done with a later one until a person has looked.")
        return
    page = rows[:ROWS]
    listed("conflict", conflicts_frame(page), [row.id for row in page], {})
    st.caption(f"{FIRST_STANDS} Tick a row's box to compare.")
    events_foot.foot("conflict", page[0].id, page[-1].id if len(rows) > ROWS else None)


def conflicts_frame(rows: list[Conflict]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Came (UTC)": [moment(row.first_seen_at, row.now) for row in rows],
            "Source": [shown(row.source) for row in rows],
            "Type": [shown(row.type) for row in rows],
            "Key": [shown(row.event_key) for row in rows],
            "Event": [f"{row.event_id}" for row in rows],
            "Deliveries": [f"{row.deliveries:,}" for row in rows],
            "Size": [size(row.bytes) for row in rows],
            "Seen": [moment(row.acknowledged_at, row.now) if row.acknowledged_at else "–" for row in rows],
        }
    )


def quarantine_answer(sizes: Sizes) -> str:
    if not sizes.quarantine:
        return "Nothing is in quarantine."
    return f"{counted(sizes.quarantine)} {'content is' if sizes.quarantine == 1 else 'contents are'} in quarantine."


def quarantine() -> None:
    place = paging.place("events")
    rows = session.read_soon(lambda tx: views_kept.quarantine(tx, after=place, most=ROWS + 1))
    if not rows:
        with st.container(border=True):
            st.markdown("**What is authentic but has no usable key or shape is kept here, with its bytes.**")
            st.caption("It was answered as received, so its sender does not try again.")
        return
    page = rows[:ROWS]
    listed(
        "quarantined",
        quarantine_frame(page),
        [row.id for row in page],
        {"Why": st.column_config.TextColumn(width="large")},
    )
    st.caption("The newest comes first. Tick a row's box to open it.")
    events_examine.offer([row for row in page if row.examined_at is not None or row.asked_at is None])
    events_foot.foot("quarantined", page[0].id, page[-1].id if len(rows) > ROWS else None)


def quarantine_frame(rows: list[Quarantined]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Received (UTC)": [moment(row.first_seen_at, row.now) for row in rows],
            "Source": [shown(row.source) for row in rows],
            "Why": [shown(row.reason) for row in rows],
            "Size": [size(row.bytes) for row in rows],
            "Place in list": [place_in_list(row.element) for row in rows],
            "Deliveries": [f"{row.deliveries:,}" for row in rows],
            "Examined again": [shown(events_examine.became(row)) for row in rows],
        }
    )


def place_in_list(element: int) -> str:
    """People count from one. The first place is also that of what was no list."""
    return f"{element + 1}" if element else "1, or no list"


# ── One ───────────────────────────────────────────────────────────────────────────────────────────────


def draw_conflict(conflict: Conflict) -> None:
    _way_back("All conflicts", "conflict")
    components.headline(
        conflict.type, conflict.source, ": same key, other content", FIRST_STANDS.partition(". ")[2]
    )
    components.facts(
        [
            ("Key", conflict.event_key),
            ("First came", f"{moment(conflict.accepted_at, conflict.now)} UTC"),
            ("The other came", f"{moment(conflict.first_seen_at, conflict.now)} UTC"),
            ("Deliveries of the other", f"{conflict.deliveries:,}"),
            *([("Its delivery's id", conflict.delivery_id)] if conflict.delivery_id else []),
        ]
    )
    if st.button(f"Open event {conflict.event_id}", icon=":material/arrow_forward:", type="tertiary"):
        st.query_params.pop("conflict", None)
        st.query_params["event"] = str(conflict.event_id)
        st.rerun()
    events_compare.draw(conflict)
    events_compare.mark_as_seen(conflict)


def draw_quarantined(kept: Quarantined) -> None:
    _way_back("All of quarantine", "quarantined")
    components.headline("A delivery", kept.source, " that is no event", _standing(kept))
    times = f" ({many(kept.deliveries, 'time')}, last {moment(kept.last_seen_at, kept.now)} UTC)"
    components.facts(
        [
            ("Why", kept.reason),
            (
                "Received",
                f"{moment(kept.first_seen_at, kept.now)} UTC" + (times if kept.deliveries > 1 else ""),
            ),
            ("Size", size(kept.bytes)),
            ("Place in its list", place_in_list(kept.element)),
            ("Namespace", kept.namespace),
        ]
    )
    st.subheader("Content", anchor=False)
    mark = f"quarantine_{kept.id}"
    found = events_body.revealed(mark)
    if kept.bytes is None:
        st.caption("The content is no longer kept. Where it came from and why it could not be used is.")
    elif found is not None and isinstance(found[0], bytes):
        events_body.body(mark, found[0], found[1])
    else:
        events_body.ask(mark, "Show the content", lambda why: session.reveal(kept.id, why, "quarantine"))
    events_examine.draw(kept)


def _standing(kept: Quarantined) -> str:
    if kept.settled_at is not None and kept.event_id is not None:
        return "It was read again, and is an event now."
    bytes_too = "It is kept with its bytes. " if kept.bytes is not None else ""
    return f"{bytes_too}Nothing was done with it."


def _way_back(label: str, name: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button(label, icon=":material/arrow_back:", type="tertiary"):
            events_list.back(name)
        events_foot.age()
