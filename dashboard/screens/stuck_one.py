"""One event that is stuck, in a drawer beside the list: why, what happens next, its errors, and what can be done."""

from __future__ import annotations

from itertools import groupby

import streamlit as st

from dashboard import components, session
from dashboard.screens import stuck_acts, stuck_done, stuck_read, stuck_words
from dashboard.screens.events_words import moment
from dashboard.screens.stuck_fits import CONSEQUENCE, DEEDS, ICONS, READ_ONLY, label, why_not
from dashboard.screens.stuck_read import Kept
from dashboard.words import many, span
from ledger.database import Transaction
from ledger.events import recovery
from ledger.payload import shown
from ledger.views import stuck as views_stuck
from ledger.views.stuck_rows import Failure, StuckEvent, Surroundings

DIGITS_MAX = 18  # of a bigint that is certainly one
ERROR_CHARACTERS_SHOWN = 2000
ENDINGS = {
    "retry": "failed",
    "set_aside": "failed, and it was set aside",
    "unavailable": "was put off, and does not count",
    "handed_back": "was handed back: its worker was going",
    "rescued": "ended without a sign of its worker",
    "taken_back": "was ended by a person, who handed it back",
    "put_aside": "was ended by a person, who set it aside",
}
FAILED = ("retry", "set_aside")
Found = tuple[StuckEvent, Surroundings, list[Failure]]


def open_asked(now: Kept) -> None:
    """The event that the address names, if it names one."""
    asked = st.query_params.get_all("event")
    if not asked or st.session_state.get("stuck_asking"):
        return
    found = _find(asked)
    if found is None:
        _nothing()
        return
    st.dialog(f"Event {found[0].id:,}", width="medium", position="right", on_dismiss=_close)(_drawer)(
        found, now
    )


def _find(asked: list[str]) -> Found | None:
    """What an address names. An address only shows; nothing is ever done because of one."""
    text = asked[0]
    if len(asked) != 1 or not (text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX):
        return None

    def read(tx: Transaction) -> Found | None:
        one = views_stuck.one_event(tx, int(text), stuck_read.limits())
        return (*one, views_stuck.failures(tx, int(text))) if one else None

    return session.read_soon(read)


def _close() -> None:
    st.query_params.pop("event", None)


@st.dialog("No such event", position="right", on_dismiss=_close)
def _nothing() -> None:
    st.markdown(components.NOTHING_HERE)


def _drawer(found: Found, now: Kept) -> None:
    row, around, failures = found
    components.mail_head(facts(row, around))
    with st.container(horizontal=True):
        _onwards(row, now)
    _acts(row)
    _errors(row, failures)


def facts(row: StuckEvent, around: Surroundings) -> list[tuple[str, str]]:
    """All that decides about it. Values may come from outside."""
    if row.state == "completed":
        stands = [("State", "It is done: nothing of it is stuck any more.")]
    else:
        stands = [
            ("Why", stuck_words.why(row, around)),
            ("Next", stuck_words.happens_next(row, around, stuck_read.pace())),
        ]
    lease = f"{moment(row.lease_until, row.now)} UTC" if row.lease_until else ""
    return [
        ("What", stuck_words.thing(row)),
        ("Source", shown(row.source)),
        ("Accepted", f"{moment(row.accepted_at, row.now)} UTC, {stuck_words.age(row)} ago"),
        *stands,
        ("Tries", stuck_words.tries(row)),
        ("Worker", stuck_words.worker(row) if row.worker else ""),
        ("Lease to", lease),
    ]


def _onwards(row: StuckEvent, now: Kept) -> None:
    page = st.session_state["pages"]["events"]
    if st.button("Its whole story", icon=":material/open_in_new:", key="stuck_story"):
        st.switch_page(page, query_params={"event": str(row.id)})
    following = _following(row, now)
    if following is not None and st.button("Next", icon=":material/arrow_downward:", key="stuck_next"):
        st.query_params["event"] = str(following)
        st.rerun()


def _following(row: StuckEvent, now: Kept) -> int | None:
    """The next event of the page behind it."""
    ids = [one.id for one in now.page.rows if isinstance(one, StuckEvent)]
    behind = ids[ids.index(row.id) + 1 :] if row.id in ids else []
    return behind[0] if behind else None


def _acts(row: StuckEvent) -> None:
    """The same acts as under the table, for those who came here by keyboard."""
    role = session.chosen().role
    fit = [deed for deed in DEEDS if not why_not(row, deed, role)] if row.state != "completed" else []
    for deed in fit:
        with st.expander(label(deed, 1), icon=ICONS[deed]):
            st.caption(CONSEQUENCE[deed])
            because = stuck_acts.second_because([row])
            if because:
                st.info(because, icon=":material/group:")
            why, pressed = stuck_acts.press_with_reason(deed, 1, "one", asks=bool(because))
            if pressed:
                _close()
                does = stuck_done.ask_second if because else stuck_done.carry_out
                does(deed, [row], why)
                st.rerun()
    if role not in recovery.REQUEUERS:
        st.caption(READ_ONLY)


def _errors(row: StuckEvent, failures: list[Failure]) -> None:
    if not failures and not row.last_error:
        st.caption("No try of it has failed.")
        return
    st.markdown("**Its errors, the newest first**")
    if not failures:
        _error(row.last_error)
    for _, alike in groupby(failures, key=lambda one: (one.ending in FAILED, one.error)):
        same = list(alike)
        st.caption(ended_words(same, row))
        if same[0].error:
            _error(same[0].error)


def ended_words(same: list[Failure], row: StuckEvent) -> str:
    """What became of one try, or of several in a row that ended alike; the newest comes first."""
    last, first = same[0], same[-1]
    at, ended = moment(last.ended_at, row.now), ENDINGS.get(last.ending, "ended")
    if len(same) > 1:
        return f"Tries {first.attempt} to {last.attempt} ended alike: the last {ended}, at {at} UTC."
    took = span(max(0.0, (last.ended_at - last.claimed_at).total_seconds()))
    return f"Try {last.attempt} {ended} after {took}, at {at} UTC."


def _error(text: str) -> None:
    st.code(shown(text[:ERROR_CHARACTERS_SHOWN]), language=None, wrap_lines=True)
    if len(text) > ERROR_CHARACTERS_SHOWN:
        st.caption(f"The first {many(ERROR_CHARACTERS_SHOWN, 'character')}.")
