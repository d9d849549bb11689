"""Which events: by source, type, state and time, or by number. The address is the truth about it; the count is exact."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import streamlit as st

from dashboard import session
from dashboard.components import too_slow
from dashboard.screens.events_filters import sources
from dashboard.words import many, named
from ledger.errors import TooSlow
from ledger.payload import shown
from ledger.records.reprocess import RunMode, Wanted
from ledger.reprocess.planning import ROWS_MAX
from ledger.states import EventState
from ledger.views import chosen as views_chosen
from ledger.views import events as views_events
from ledger.views.found import Filter

MOST = views_events.COUNTED_MAX  # in one run from here; the command line takes more
DIGITS_MAX = 18  # of a bigint that is certainly one
MINUTE = "%Y-%m-%dT%H:%M"
STATES = {"": "Done", "failed": "Set aside", "any": "Any"}
WAYS = {"filter": "By source, type and time", "number": "By number"}
ADDRESS = ("source", "type", "state", "from", "until", "event")


@dataclass(frozen=True, slots=True)
class Choice:
    """What the address says. `numbers` alone count where there are any."""

    numbers: tuple[int, ...] = ()
    source: str = ""
    type: str = ""
    state: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def says_something(self) -> bool:
        return self != Choice(state=self.state)

    def wanted(self) -> Wanted:
        """As the ledger has it in words, for a run of events."""
        if self.numbers:
            return Wanted(RunMode.RECOMPUTE, event_ids=self.numbers)
        return Wanted(
            RunMode.RECOMPUTE, source=self.source, type=self.type, state=self._state(), since=self.since, until=self.until
        )  # fmt: skip

    def filter(self) -> Filter:
        state = self._state()
        only = EventState(state) if state else None
        return Filter(source=self.source, type=self.type, state=only, since=self.since, until=self.until)

    def _state(self) -> str:
        return {"": "completed", "failed": "failed"}.get(self.state, "")


def draw() -> tuple[Choice, list[int] | None]:
    """The container, and what was chosen in it: the events' numbers; None while there is nothing to go on with."""
    choice = asked()
    with st.container(border=True):
        st.subheader("1 · Which events", anchor=False)
        st.session_state["rerun_way"] = "number" if "event" in st.query_params else "filter"
        st.segmented_control(
            "How to choose",
            list(WAYS),
            required=True,
            format_func=lambda name: WAYS[name],
            label_visibility="collapsed",
            key="rerun_way",
            on_change=_way,
        )
        _numbers() if "event" in st.query_params else _filters(choice)
        return choice, _fitting(choice)


def asked() -> Choice:
    """What the address says; what it says wrongly is left out."""
    given = {name: st.query_params.get(name, "") for name in ADDRESS}
    if "event" in st.query_params:
        return Choice(numbers=numbers(given["event"]))
    state = given["state"] if given["state"] in STATES else ""
    return Choice((), given["source"][:200], given["type"][:200], state, _time(given["from"]), _time(given["until"]))  # fmt: skip


def numbers(text: str) -> tuple[int, ...]:
    """`12, 15 #20` are three; whatever else stands there is none. Each once, in the order of their numbers."""
    words = (word.removeprefix("#") for word in text.replace(",", " ").split())
    digits = {int(word) for word in words if word.isascii() and word.isdecimal() and len(word) <= DIGITS_MAX}
    return tuple(sorted(digits)[: MOST + 1])


# ── The count ─────────────────────────────────────────────────────────────────────────────────────────


def _fitting(choice: Choice) -> list[int] | None:
    if not choice.says_something:
        st.caption("Choose a source, a type or a time, or give the numbers of events.")
        return None
    try:
        ids = _ids(choice)
    except TooSlow:
        too_slow()
        return None
    if len(ids) > MOST:
        _too_many(choice)
        return None
    st.markdown(f"**{many(len(ids), 'event fits', 'events fit')}.**" if ids else "**No event fits.**")
    return list(ids) or None


def _too_many(choice: Choice) -> None:
    st.markdown(
        f"**More than {MOST:,} events fit.** Choose fewer, or have the command line take them, {ROWS_MAX:,} at most. "
        "This only looks, and says how it is asked for:"
    )
    st.code(shown(command(choice)), language=None)


def command(choice: Choice) -> str:
    """What lists the same events at the command line. What strangers named is quoted for a shell."""
    state = "failed" if choice.state == "failed" else ""
    since, until = (at.strftime(MINUTE) if at else "" for at in (choice.since, choice.until))
    given = {"source": choice.source, "type": choice.type, "state": state, "since": since, "until": until}
    numbered = (f"--event={number}" for number in choice.numbers)
    named = (f"--{name}={value}" for name, value in given.items() if value)
    return shlex.join(["nottwice", "reprocess", *numbered, *named])


def _ids(choice: Choice) -> Sequence[int]:
    if choice.numbers:
        return choice.numbers
    return session.read_soon(lambda tx: views_chosen.chosen(tx, choice.filter(), most=MOST))


# ── The widgets ───────────────────────────────────────────────────────────────────────────────────────


def _numbers() -> None:
    _set("event", st.query_params.get("event", ""))
    st.text_input(
        "Numbers of events",
        key="rerun_event",
        placeholder="12, 15, 20",
        on_change=_changed,
        args=("event",),
    )


def _filters(choice: Choice) -> None:
    with st.container(horizontal=True, gap="small"):  # at 900 px it takes two rows
        _set("source", choice.source)
        st.selectbox(
            "Source",
            options=["", *sources(choice.source)],
            format_func=lambda name: named(name) if name else "All",
            key="rerun_source",
            on_change=_changed,
            args=("source",),
            width=160,
        )
        _set("type", choice.type)
        st.text_input("Type", key="rerun_type", placeholder="all", on_change=_changed, args=("type",), width=200)  # fmt: skip
        _set("state", choice.state)
        st.selectbox(
            "State",
            options=list(STATES),
            format_func=lambda name: STATES[name],
            key="rerun_state",
            on_change=_changed,
            args=("state",),
            width=140,
        )
        for name, label, at in (
            ("from", "Received from (UTC)", choice.since),
            ("until", "until (UTC)", choice.until),
        ):
            _set(name, at and at.replace(tzinfo=None))
            st.datetime_input(
                label, None, key=f"rerun_{name}", step=60, on_change=_changed, args=(name,), width=195
            )


def _set(name: str, value: object) -> None:
    st.session_state[f"rerun_{name}"] = value


def _changed(name: str) -> None:
    """Into the address, from where the next run reads it."""
    value = st.session_state[f"rerun_{name}"]
    text = value.strftime(MINUTE) if isinstance(value, datetime) else str(value or "").strip()
    st.query_params["plan"] = "new"
    if name != "event":
        st.query_params.pop(name, None)
    if text or name == "event":
        st.query_params[name] = ", ".join(map(str, numbers(text))) if name == "event" else text


def _way() -> None:
    """The other way of choosing; what was chosen in this one is let go."""
    by_number = st.session_state["rerun_way"] == "number"
    for name in ADDRESS:
        st.query_params.pop(name, None)
    st.query_params["plan"] = "new"
    if by_number:
        st.query_params["event"] = ""


def _time(text: str) -> datetime | None:
    try:
        at = datetime.strptime(text, MINUTE).replace(tzinfo=UTC)
    except ValueError:
        return None
    return at if 1970 <= at.year < 9000 else None
