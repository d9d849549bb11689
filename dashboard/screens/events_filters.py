"""The filters of the list in one row. All but the key stand in the address, which is the truth about them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NoReturn

import streamlit as st

from dashboard import paging, session
from dashboard.address import without_control
from dashboard.words import named
from ledger.states import EventState
from ledger.views import events as views_events
from ledger.views.found import Filter

TEXT_MAX = 300
ADDRESS = ("source", "type", "state", "from", "until")
STATES = {
    "pending": "Waiting",
    "unhandled": "Nobody handles it",  # pending too, but no worker takes it
    "processing": "In hand",
    "completed": "Done",
    "failed": "Set aside",
}
MINUTE = "%Y-%m-%dT%H:%M"


def draw(wanted: Filter) -> None:
    """The widgets, set to what the address says."""
    with st.container(horizontal=True, gap="small"):  # at 900 px it takes two rows
        _key(wanted)
        _kind(wanted)
        _times(wanted)


def _key(wanted: Filter) -> None:
    _set("key", wanted.text)
    st.text_input(
        "Key or number",
        key="events_key",
        max_chars=TEXT_MAX,
        placeholder="whole, or its beginning",
        type="search",
        on_change=_key_typed,
        width=225,
    )


def _kind(wanted: Filter) -> None:
    _set("source", wanted.source)
    st.selectbox(
        "Source",
        options=["", *sources(wanted.source)],
        format_func=lambda name: named(name) if name else "All",
        key="events_source",
        on_change=_chosen,
        args=("source",),
        width=135,
    )
    _set("type", wanted.type)
    st.text_input(
        "Type",
        key="events_type",
        max_chars=200,
        placeholder="all",
        on_change=_chosen,
        args=("type",),
        width=165,
    )
    _set("state", "unhandled" if wanted.handled is False else wanted.state.value if wanted.state else "")
    st.selectbox(
        "State",
        options=["", *STATES],
        format_func=lambda name: STATES.get(name, "All"),
        key="events_state",
        on_change=_chosen,
        args=("state",),
        width=150,
    )


def _times(wanted: Filter) -> None:
    """Widgets know no zone; what they say is UTC."""
    _set("from", wanted.since and wanted.since.replace(tzinfo=None))
    st.datetime_input(
        "Received from (UTC)", None, key="events_from", step=60, on_change=_chosen, args=("from",), width=187
    )
    _set("until", wanted.until and wanted.until.replace(tzinfo=None))
    st.datetime_input(
        "until (UTC)", None, key="events_until", step=60, on_change=_chosen, args=("until",), width=187
    )


def clear() -> NoReturn:
    """All events again."""
    for name in ADDRESS:
        st.query_params.pop(name, None)
    st.session_state["events_text"] = ""
    paging.start("events")
    st.rerun()


def asked() -> Filter:
    """What the address says; what it says wrongly is left out. The key is this session's own."""
    given = {name: st.query_params.get(name, "") for name in ADDRESS}
    state, handled = _state(given["state"])
    return Filter(
        text=without_control(str(st.session_state.get("events_text", ""))).strip()[:TEXT_MAX],
        source=given["source"][:200],
        type=given["type"][:200],
        state=state,
        handled=handled,
        since=_time(given["from"]),
        until=_time(given["until"]),
    )


def _state(name: str) -> tuple[EventState | None, bool | None]:
    """What waits is told apart: for a worker, or for one that has a handler for it."""
    if name == "unhandled":
        return EventState.PENDING, False
    state = EventState(name) if name in STATES else None
    return state, True if state is EventState.PENDING else None


def _time(text: str) -> datetime | None:
    try:
        at = datetime.strptime(text, MINUTE).replace(tzinfo=UTC)
    except ValueError:
        return None
    return at if 1970 <= at.year < 9000 else None


def sources(chosen: str, also: Iterable[str] = ()) -> list[str]:
    """Those configured, those that have sent something, and the one that the address names."""
    seen = session.read_soon(views_events.sources)
    return sorted({*session.house().settings.sources, *seen, *also, *([chosen] if chosen else [])})


def _set(name: str, value: object) -> None:
    st.session_state[f"events_{name}"] = value


def _chosen(name: str) -> None:
    """Into the address, from where the next run reads it."""
    value = st.session_state[f"events_{name}"]
    text = value.strftime(MINUTE) if isinstance(value, datetime) else str(value or "").strip()
    st.query_params.pop(name, None)
    if text:
        st.query_params[name] = text
    paging.start("events")


def _key_typed() -> None:
    st.session_state["events_text"] = st.session_state["events_key"]
    paging.start("events")
