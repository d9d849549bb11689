"""What will happen, row by row, and the button that asks for it.

The list is the one that was read when it is drawn first, until somebody looks again: a press asks for exactly these rows, and
what changed of them meanwhile is left out and said. A one-time form, drawn with the list, makes two presses one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import streamlit as st

from dashboard import components, session
from dashboard.screens import reprocess_planned, reprocess_runs
from dashboard.screens import reprocess_words as words
from dashboard.words import clock_s, harmless, many, what
from ledger import reprocess
from ledger.database import Transaction
from ledger.records import Act
from ledger.records.reprocess import Asked, Plan, RunMode, Wanted
from ledger.reprocess.requests import IN_WORDS
from ledger.views import reprocess as views_reprocess
from ledger.views import review as views_review

MISSING = "Nothing was begun. Please say why."
TRY = (
    "**Try it out first:** the handlers run, all they did in the database is undone, and what they would send is listed. "
    "Calls to a model are made, and paid."
)


@dataclass(frozen=True, slots=True)
class Look:
    """A list as somebody looks at it: when it was read, and the one-time forms with which it may be asked for."""

    plan: Plan
    among: tuple[int, ...]
    at: datetime
    forms: dict[RunMode, UUID]


def draw(wanted: Wanted, ids: Sequence[int]) -> None:
    look: Look | None = st.session_state.get("rerun_look")
    if look is None or look.plan.wanted != wanted:
        look = st.session_state["rerun_look"] = _read(wanted, tuple(ids))
    with st.container(border=True):
        st.subheader("3 · What will happen", anchor=False)
        _sentence(look)
        reprocess_planned.draw(look.plan.rows)
        _age(look, ids)
        if look.plan.going:
            _ask(look)


def _read(wanted: Wanted, ids: tuple[int, ...]) -> Look:
    reprocess_planned.start()
    who = session.me()

    def read(tx: Transaction) -> Look:
        plan = _planned(tx, wanted, ids)
        modes = [wanted.mode, *([RunMode.PREVIEW] if wanted.mode is RunMode.RECOMPUTE else [])]
        forms = {mode: reprocess.form_of(tx, _in_mode(plan, mode), who) for mode in modes}
        return Look(plan, ids, views_review.now(tx), forms)

    return session.read_soon(read)


def _planned(tx: Transaction, wanted: Wanted, ids: tuple[int, ...]) -> Plan:
    among = None if wanted.event_ids else ids
    kinds = session.house().settings.once_ever
    return reprocess.planned(tx, wanted, session.chosen().role, once_ever=kinds, among=among)


def _in_mode(plan: Plan, mode: RunMode) -> Plan:
    return replace(plan, wanted=replace(plan.wanted, mode=mode))


# ── What is shown of it ───────────────────────────────────────────────────────────────────────────────


def _sentence(look: Look) -> None:
    going = len(look.plan.going)
    staying = len(look.plan.rows) - going
    st.markdown(words.sentence(look.plan.wanted.mode, going, staying, people(look)))
    if look.plan.standing:
        stand = (
            f"{what(one.kind)}, {one.state.replace('_', ' ')}: {one.actions:,}" for one in look.plan.standing
        )
        components.told("Their sends stand, and none goes out again:", "; ".join(stand))
    figures = session.figures().figures
    if figures is not None and not figures.workers:
        st.warning("No worker is alive. It begins when one runs.", icon=":material/hourglass_empty:")


def people(look: Look) -> int:
    """To how many addresses it would go; 0 where this role does not see them whole, or nothing goes."""
    if any(row.recipients is None for row in look.plan.going):
        return 0
    return len({one for row in look.plan.going for one in row.recipients or ()})


def _age(look: Look, ids: Sequence[int]) -> None:
    other = not look.plan.wanted.event_ids and look.plan.wanted.mode is RunMode.RECOMPUTE
    more = " Another list fits by now." if other and tuple(ids) != look.among else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"Read at {clock_s(look.at)} UTC, and asked for as it stands here.{more}", width="content")
        st.button("Look again", icon=":material/refresh:", type="tertiary", on_click=_look_again)


def _look_again() -> None:
    st.session_state.pop("rerun_look", None)


# ── Asking for it ─────────────────────────────────────────────────────────────────────────────────────


def _ask(look: Look) -> None:
    mode, going = look.plan.wanted.mode, len(look.plan.going)
    above = session.house().settings.reprocess.second_person_above
    if mode is RunMode.RECOMPUTE and going > above:
        st.caption(f"More than {many(above, 'event')} within an hour take a second person.")
    with st.form("rerun_ask", border=False, enter_to_submit=False):
        components.reason("Why? The audit keeps your words.", key="rerun_why")
        with st.container(horizontal=True):
            st.form_submit_button(
                words.names_the_act(mode, going, people(look)),
                type="primary",
                on_click=press,
                args=(look, mode),
            )
            if RunMode.PREVIEW in look.forms:
                st.form_submit_button("Try it out first", on_click=press, args=(look, RunMode.PREVIEW))
        if RunMode.PREVIEW in look.forms:
            st.caption(TRY)
    if missing := st.session_state.pop("rerun_missing", ""):
        st.warning(harmless(missing), icon=":material/edit:")


def press(look: Look, mode: RunMode) -> None:
    """Before anything is drawn anew: a press on a page that is stale, or a second one, is answered."""
    why = str(st.session_state.get("rerun_why", "")).strip()
    if missing := MISSING if not why else session.too_long(why):
        st.session_state["rerun_missing"] = missing
        return
    settings, left_out = session.house().settings, 0

    def do(tx: Transaction, act: Act) -> Asked:
        nonlocal left_out
        now = _planned(tx, look.plan.wanted, look.among)
        plan = _in_mode(reprocess.as_seen(look.plan, now), mode)
        left_out = len(look.plan.going) - len(plan.going)
        expires_s = settings.console.request_expires_s
        return reprocess.request(tx, plan, act, settings.reprocess, expires_s=expires_s)

    form = look.forms[mode]
    result = session.act(IN_WORDS[mode], 1, do, form=form, why=why, entity="installation")
    _go_on(result, form, left_out)


def _go_on(result: session.Result, form: UUID, left_out: int) -> None:
    """To the run, when there is one; otherwise the page says what was not done, and reads the list anew."""
    run_id = (
        result.value.run_id if isinstance(result, session.Done) and isinstance(result.value, Asked) else None
    )
    if isinstance(result, session.Twice):
        run_id = session.read(lambda tx: views_reprocess.asked_with(tx, form))
    if run_id is None:
        st.session_state["rerun_result"] = result
        st.session_state.pop("rerun_look", None)
        return
    st.session_state["rerun_told"] = (run_id, result, left_out)
    reprocess_runs.open_run(run_id)
