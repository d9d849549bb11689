"""The entries, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from dashboard import paging, session
from dashboard.colours import PILLS, State
from dashboard.components import mode
from dashboard.lists import listed
from dashboard.words import clock_s, named
from ledger.audit.choice import ALL, Chosen
from ledger.payload import shown
from ledger.views import audit as views_audit
from ledger.views.audit import Entry, Page

ROWS = paging.ROWS
ENDS = {"done": "✓ Done", "refused": "– Refused", "failed": "⚠ Failed"}
PILL_STATES: tuple[State, ...] = ("done", "waiting", "person")
SUBJECTS = {
    "action": "Send",
    "event": "Event",
    "request": "Request",
    "conflict": "Conflict",
    "quarantine": "Quarantined",
    "audit": "The record",
    "reprocess": "Reprocessing run",
    "finding": "Finding",
    "together": "List of sends",
    "provider": "Provider",
    "installation": "This installation",
}
WORDS = {"reveal": "read the text"}  # where the ledger's word is too short
FEW_LETTERS = {  # for a table; the entry itself has the whole sentence
    "asked a second person: send again with a new key": "asked a second person: a new key",
    "agreed: send again with a new key": "agreed: a new key",
}
NOT_DONE = ("Not done. ", "Nothing was done. ", "Nothing was shown. ")  # a refusal's outcome says it
EMPTY = "Whatever a person decides, tries or is refused stands here: who, when, to what, and why."


def read(chosen: Chosen) -> Page:
    """The page of the record that this session is at."""
    place, who = paging.place("audit"), session.me()
    page = session.read_soon(lambda tx: views_audit.entries(tx, who, chosen, after=place, most=ROWS))
    st.session_state["audit_ids"] = [entry.id for entry in page.entries]
    return page


def offer_newest(page: Page) -> None:
    """For those who do not reach a row by hand."""
    if page.entries and st.button("Open the newest", icon=":material/arrow_forward:", icon_position="right"):
        st.query_params["entry"] = str(page.entries[0].id)
        st.rerun()


def draw(chosen: Chosen, page: Page) -> None:
    if page.entries:
        _table(page.entries)
    else:
        _nothing(chosen, page)
    way: paging.Onwards = "next" if page.looked_to is None else "back in time"
    paging.foot("audit", page.onwards or None, way)


def _table(entries: Sequence[Entry]) -> None:
    listed("entry", frame(entries), [entry.id for entry in entries], _columns())
    st.caption("The newest comes first. Tick a row's box to open it.")


def frame(entries: Sequence[Entry]) -> pd.DataFrame:
    """The most telling columns first: at 900 px the rest scrolls."""
    return pd.DataFrame(
        {
            "No.": [f"{entry.id:,}" for entry in entries],
            "Time (UTC)": [when(entry) for entry in entries],
            "Who": [who(entry) for entry in entries],
            "Did": [_did_in_short(entry) for entry in entries],
            "To what": [subject(entry) for entry in entries],
            "Outcome": [[ENDS[entry.outcome]] for entry in entries],
            "Why": [_in_short(entry) for entry in entries],
        }
    )


def when(entry: Entry) -> str:
    """With its day: the record is long."""
    return f"{entry.at.day} {entry.at:%b %Y} {clock_s(entry.at)}"


def who(entry: Entry) -> str:
    return named(entry.who) if entry.person_id is not None else "Policy"


def did(entry: Entry) -> str:
    return shown(WORDS.get(entry.act, entry.act))


def subject(entry: Entry) -> str:
    number = f" {entry.entity_id}" if entry.entity_id else ""
    about = f" · {shown(entry.about)}" if entry.about.strip() else ""
    return f"{SUBJECTS[entry.entity]}{number}{about}"


def why(entry: Entry) -> str:
    """The person's own words, behind what the ledger said when it did not do it."""
    said = entry.detail if entry.outcome != "done" else ""
    return shown(" · ".join(part for part in (said, entry.why) if part))


def _did_in_short(entry: Entry) -> str:
    if _policy_reason(entry):
        return shown(entry.act.partition(": ")[0])
    return FEW_LETTERS.get(entry.act, did(entry))


def _policy_reason(entry: Entry) -> str:
    """A policy's reason stands behind what it did; in a list it is a why, as a person's is."""
    return entry.act.partition(": ")[2] if entry.person_id is None else ""


def _in_short(entry: Entry) -> str:
    """Without the ledger's first words where the outcome beside it says them: the reason itself is to be read."""
    words = why(entry)
    if by_policy := _policy_reason(entry):
        return shown(f"{by_policy} · {words}" if words else by_policy)
    return next((words.removeprefix(one) for one in NOT_DONE if words.startswith(one)), words)


def _columns() -> dict[str, ColumnConfig]:
    text, pills = st.column_config.TextColumn, PILLS[mode()]
    ends = st.column_config.MultiselectColumn(
        options=list(ENDS.values()), color=[pills[state] for state in PILL_STATES], width=92
    )
    return {
        "No.": text(width=50, alignment="right"),
        "Time (UTC)": text(width=138),
        "Who": text(width=90),
        "Did": text(width=178),
        "To what": text(width=166),
        "Outcome": ends,
        "Why": text(width=270),
    }


def _nothing(chosen: Chosen, page: Page) -> None:
    with st.container(border=True):
        if page.looked_to is not None:
            at = page.looked_to
            st.markdown(f"**Nothing fits since {at:%-d %b %Y %H:%M:%S} UTC.** Look further back below.")
        elif chosen == ALL:
            st.markdown(f"**{EMPTY}**")
            st.caption("Nothing in it can be changed. Each entry is sealed behind the one before it.")
        else:
            st.markdown("**Nothing in the record fits.** Choose less above.")
