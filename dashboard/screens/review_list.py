"""A list of sends that was decided together, or waits for a second person: what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import components, session
from dashboard.lists import listed, offer_first
from dashboard.screens import review_together
from dashboard.screens.review_causes import asked_words, go
from dashboard.screens.review_decide import READS_ONLY
from dashboard.screens.review_queue import recipients_words
from dashboard.screens.review_said import LOOKED_AT
from dashboard.words import clock, clock_s, harmless, many, named
from ledger import together
from ledger.database import Transaction
from ledger.payload import shown
from ledger.records import Act, Decision
from ledger.views import together as views_together
from ledger.views.together import DecidedList, Result

DID = {
    Decision.WAS_SENT: "closed as sent",
    Decision.RESEND_SAME_KEY: "sent again with the same key",
    Decision.DO_NOT_SEND: "closed as not sent",
}


def draw(found: DecidedList) -> None:
    rows = session.read(lambda tx: views_together.results(tx, found.id))
    if st.button("All that wait", icon=":material/arrow_back:", type="tertiary"):
        go({})
    st.title(answer(found, rows), anchor=False)
    components.told(f"{found.cause}.", "")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _table(found, rows)
    with right:
        with st.container():  # a place of its own: see review_send
            review_together.last_result()
        st.fragment(_panel)(found, rows)


def answer(found: DecidedList, rows: Sequence[Result]) -> str:
    done = sum(row.result == "done" for row in rows)
    match found.state:
        case "done":
            left = f", {len(rows) - done:,} left alone" if len(rows) > done else ""
            return f"{many(done, 'send')} {DID[Decision(found.decision)]}{left}."
        case "waiting" if not found.expired:
            return f"A second person is asked to {asked_words(found)}."
        case "waiting":
            return f"Nobody agreed in time to {asked_words(found)}."
        case _:
            return f"Not agreed: {asked_words(found)}."


def _table(found: DecidedList, rows: Sequence[Result]) -> None:
    text = st.column_config.TextColumn
    columns = {"To": text(width=190), "About": text(width=120), "Became": text(width=130)}
    columns["Why it was left alone"] = text(width=330)
    listed("send", frame(rows), [row.id for row in rows], columns, mark=f"list_{found.id}", height="auto")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(
            "Those left alone come first; they are on the desk. Tick a row's box to open it.", width="content"
        )
        offer_first("Open the first", "send", rows[0].id, mark="list")


def frame(rows: Sequence[Result]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "To": [recipients_words(row.recipients) for row in rows],
            "About": [shown(row.about) for row in rows],
            "Became": [_became(row) for row in rows],
            "Why it was left alone": [shown(row.reason) for row in rows],
        }
    )


def _became(row: Result) -> str:
    """What the decision did, and where the send is now."""
    word = {"left": "left alone", "waiting": "not decided yet"}.get(row.result)
    return word or {"approved": "ready to go", "needs_review": "back on the desk"}.get(row.state, row.state.replace("_", " "))  # fmt: skip


# ── What can be done with it ──────────────────────────────────────────────────────────────────────────


def _panel(found: DecidedList, rows: Sequence[Result]) -> None:
    if found.state == "done":
        _decided_by(found)
    elif found.state == "waiting" and not found.expired:
        _second_or_own(found)
    else:
        st.info("Nothing was done. The sends are on the desk.", icon=":material/undo:")


def _decided_by(found: DecidedList) -> None:
    own = session.me().id == (found.decided_by or found.requested_by)
    who = "you" if own else named(found.decided_name or found.name)
    at = clock_s(found.decided_at or found.requested_at)
    asked = f" {named(found.name)} had asked for it." if found.decided_by else ""
    st.success(f"**Decided by {who}, at {at} UTC.**{asked} Each send has its own audit entry.", icon=":material/check_circle:")  # fmt: skip
    if found.decision == Decision.RESEND_SAME_KEY:
        st.fragment(_going, run_every=session.refresh_s())(found)


def _going(drawn: DecidedList) -> None:
    """How many have not gone yet, while any has."""
    now = session.read(lambda tx: views_together.decided_list(tx, drawn.id))
    n = now.can_go_back if now else 0
    if not n:
        st.caption("All have gone, or are back on the desk.")
        return
    st.markdown(f"**{many(n, 'send has', 'sends have')} not gone yet.** They go two a second.")
    if session.may_decide() and st.button(
        f"Take back the {n:,}", width="stretch", key=f"list_back_{drawn.id}"
    ):
        form = session.form_id("list", drawn.id, "taken back", n)
        go_back = lambda tx, act: together.take_back(tx, drawn.id, act)  # noqa: E731
        review_together.finish("taken back, together", drawn.id, go_back, form=form)


def _second_or_own(found: DecidedList) -> None:
    ends = clock(found.expires_at, found.now) if found.expires_at else ""
    asked = clock(found.requested_at, found.now)
    with st.container(border=True):
        if found.requested_by == session.me().id:
            st.markdown(
                f"**Asked at {asked} UTC. Nothing has been done.** "
                f"Without an answer by {ends} UTC they come back to this desk."
            )
            st.caption("You asked for this yourself. Somebody else must agree.")
            if st.button("Withdraw the request", width="stretch", key=f"list_withdraw_{found.id}"):
                _answer(found, "withdrawn", (), "")
        elif session.may_decide():
            _second(found, asked, ends)
        else:
            st.caption(READS_ONLY)


def _second(found: DecidedList, asked: str, ends: str) -> None:
    name = named(found.name)
    st.markdown(f"**{name} asks you to agree: {asked_words(found)}.**")
    st.markdown("What changed since is left alone. Open a few rows before you answer.")
    with st.form(f"list_second_{found.id}", border=False, enter_to_submit=False):
        looked = st.pills("What did you look at yourself?", LOOKED_AT, selection_mode="multi", key=f"list_looked_{found.id}")  # fmt: skip
        why = components.reason("Why? The audit keeps your words.", key=f"list_why_{found.id}")
        left, right = st.columns(2)
        agreed = left.form_submit_button(f"Agree about {found.row_count:,}", type="primary", width="stretch")
        disagreed = right.form_submit_button("Do not agree", width="stretch")
    with st.expander(f"What {name} looked at, and why"):
        st.text(shown(f"{', '.join(found.looked_at)}.\n{found.why}"))
    st.caption(f"Asked at {asked} UTC. Expires at {ends} UTC; then they are on the desk as they were.")
    missing = session.incomplete(why, tuple(looked)) if agreed else ""
    if missing:
        st.warning(harmless(missing), icon=":material/edit:")
    elif agreed or disagreed:
        _answer(found, "agreed" if agreed else "disagreed", tuple(looked), why)


def _answer(found: DecidedList, answer: str, looked: tuple[str, ...], why: str) -> None:
    wait_s = session.house().settings.worker.decided_wait_s

    def do(tx: Transaction, act: Act) -> Any:
        if answer == "agreed":
            return together.agree(tx, found.id, act, wait_s=wait_s)
        return together.disagree(tx, found.id, act)

    form = session.form_id("list", found.id, answer)
    review_together.finish(answer, found.id, do, form=form, why=why, looked_at=looked)
