"""What an admin does on Health: end the pause of an account, release a ledger that was restored. Both take a why."""

from __future__ import annotations

from functools import partial

import streamlit as st

from dashboard import components, session
from dashboard.words import clock_s, many, named, span
from ledger.accounts import restored, resuming
from ledger.accounts.pauses import Pause
from ledger.check import Health
from ledger.database import Transaction
from ledger.records import Act

SHOWN_MAX = 5
WHY = "Why? The audit keeps your words."
SAID, DRAWN, GONE = "health_said", "health_drawn", "gone"
DOUBT = "Something may have gone out since the backup was made"
WHOLE = "It was moved whole, and nothing was sent from where it was before"
WAYS = {
    DOUBT: "Each send that waits counts as one that may be out: tried again where a key protects it, else decided by a person.",
    WHOLE: "What waits goes out as usual. If that is not so, people get mail twice.",
}


def _mark(now: Health) -> tuple[object, ...]:
    """What the acts depend on."""
    return (*((one.id, one.paused_until) for one in now.seen.pauses), now.seen.held is not None)


def are_old(now: Health, *, gone: bool) -> bool:
    """Whether what is drawn here is not what can be done now: acts are drawn in full runs only."""
    drawn = st.session_state.get(DRAWN, ())
    return bool(drawn) and drawn != ((GONE,) if gone else _mark(now))


def begin(now: Health | None) -> None:
    """Of a full run, before anything asks whether what is drawn is old."""
    st.session_state[DRAWN] = (GONE,) if now is None else _mark(now)


def draw(now: Health | None) -> None:
    """Nothing while the database is gone."""
    _said()
    if now is None:
        return
    if now.seen.held is not None:
        _release(now.seen.held)
    for pause in now.seen.pauses[:SHOWN_MAX]:
        _paused(pause)
    if len(now.seen.pauses) > SHOWN_MAX:
        st.caption(
            f"And {many(len(now.seen.pauses) - SHOWN_MAX, 'more account')}; nottwice resume lists them all."
        )


def _said() -> None:
    """What became of the last act, once."""
    match st.session_state.pop(SAID, None):
        case session.Done():
            st.success("**Done.** The audit has it.", icon=":material/done:")
        case None:
            pass
        case other:
            components.outcome(other, "pause")


def _why(key: str) -> str:
    return str(st.session_state[key]).strip()


# ── A pause ───────────────────────────────────────────────────────────────────────────────────────────


def _paused(pause: Pause) -> None:
    with st.container(border=True):
        st.markdown(f"**Account {named(pause.account)} is paused** until {clock_s(pause.paused_until)} UTC.")
        components.told(f"Since {span(pause.since_s)}:", f"{pause.account}. {pause.reason}")
        if not session.may_run_the_house():
            st.caption("You can read this. An admin resumes an account.")
            return
        with st.form(f"resume_{pause.id}", border=False, enter_to_submit=False):
            components.reason(WHY, key=f"why_resume_{pause.id}")
            st.form_submit_button(f"Resume {named(pause.account)}", on_click=_resume, args=(pause,))
        st.caption(
            "One send tries the account at once. While it fails, the account is paused again, for longer."
        )


def _resume(pause: Pause) -> None:
    """Before the page is drawn: when somebody was first, the form is not there any more."""
    why = _why(f"why_resume_{pause.id}")
    if not why:
        st.session_state[SAID] = session.Refused("Please say why.")
        return
    st.session_state[SAID] = session.act(
        resuming.RESUME,
        pause.id,
        partial(_end, pause),
        form=session.form_id(resuming.RESUME, pause.id, pause.paused_until),
        why=why,
        entity="provider",
    )


def _end(pause: Pause, tx: Transaction, act: Act) -> str:
    return resuming.resume(tx, act, pause.id, pause.paused_until)


# ── After a restore ───────────────────────────────────────────────────────────────────────────────────


def _release(held: restored.Held) -> None:
    with st.container(border=True):
        n = held.keyed + held.keyless
        st.markdown(
            f"**Nothing is sent**, and {many(n, 'send waits', 'sends wait')}: this ledger is not where it was."
        )
        components.told("Why:", held.why)
        if not session.may_run_the_house():
            st.caption("You can read this. An admin releases it.")
            return
        with st.form("release", border=False, enter_to_submit=False):
            st.radio(
                "What happened before?",
                list(WAYS),
                index=None,
                captions=list(WAYS.values()),
                key="release_way",
            )
            components.reason(WHY, key="why_release")
            st.caption("Only when the other one is off for good. The same is nottwice release.")
            st.form_submit_button("Let it send again", on_click=_let_go, args=(held.releases,))


def _let_go(releases: int) -> None:
    """`releases` before this one: a later hold is another form, even with the same words."""
    way, why = st.session_state["release_way"], _why("why_release")
    if way is None or not why:
        st.session_state[SAID] = session.Refused("Please say what happened before, and why.")
        return
    whole = way == WHOLE
    st.session_state[SAID] = session.act(
        restored.RELEASE,
        1,
        lambda tx, act: restored.release(tx, act, whole=whole),
        form=session.form_id(restored.RELEASE, releases, way, why),
        why=why,
        entity="installation",
    )
