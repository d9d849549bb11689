"""What became of a send and of the last press: goes out at, closed by, lost to. Every panel is drawn from the rows,
so that a reload says the same; only what was *not* done is remembered by the session.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Literal, NoReturn

import streamlit as st

from dashboard import components, session
from dashboard.screens import review_found
from dashboard.screens.review_decided import otherwise
from dashboard.screens.review_way import begin_at_the_top, offer_next, open_send
from dashboard.words import clock, clock_s, day, harmless, named, provider
from ledger import decisions
from ledger.database import Transaction
from ledger.payload import shown
from ledger.records import Act, Seen
from ledger.states import ActionState
from ledger.views import review as views_review
from ledger.views.decided import Decided
from ledger.views.review import Send

MOVING = ("approved", "sending")

# What may be done with a send that has ended, each with a reason.
Way = Literal["again", "give_up"]
LABELS: dict[Way, str] = {"again": "Open it again", "give_up": "Close it"}
BUTTONS: dict[Way, str] = {"again": "Put it back on the desk", "give_up": "Close it: nobody tries it again"}
CAPTIONS: dict[Way, str] = {
    "again": "Nothing goes out by this. The audit keeps both steps.",
    "give_up": "Nothing went out, and nothing does. It can be opened again.",
}
AUDITED: dict[Way, str] = {"again": "opened again", "give_up": decisions.GIVEN_UP}


def show(drawn: Send, result: session.Result) -> NoReturn:
    """Keep what was not done for the next run, which draws the send as it is now, and what the press knew of it."""
    st.session_state["last_result"] = (drawn.id, result)
    st.session_state["pressed_on"] = (drawn.now, len(drawn.evidence))
    if isinstance(result, session.Done):
        st.toast("Done. The audit has it.", icon=":material/check_circle:")
    begin_at_the_top()  # where it is told


def _result(send: Send) -> session.Result | None:
    action_id, result = st.session_state.get("last_result", (0, None))
    return result if action_id == send.id else None


def last_result(send: Send) -> None:
    result = _result(send)
    if result is not None:
        components.outcome(result)
    if isinstance(result, session.Changed):
        _new_since_the_press(send)


def _new_since_the_press(send: Send) -> None:
    """A notice that came meanwhile is most often why: whoever pressed need not read the whole page again for it."""
    drawn_at, found_then = st.session_state["pressed_on"]
    new = review_found.new_since(send, drawn_at, found_then)
    if new:
        st.markdown(f":material/new_releases: **New since you opened it at {clock_s(drawn_at)} UTC:**")
        components.evidence(new)


def refused_beside(send: Send) -> None:
    """What the ledger said no to, by the button too: the answer above may be out of view."""
    result = _result(send)
    if isinstance(result, session.Refused):
        components.outcome(result)


def panel(send: Send) -> None:
    """A send that does not wait for a person now."""
    if send.state in MOVING:
        st.fragment(_moving, run_every=session.refresh_s())(send)
        return
    if not isinstance(_result(send), session.Lost | session.Twice):
        _ended(send)
    st.fragment(_onwards)(send)


# ── Ready to go, on the way ───────────────────────────────────────────────────────────────────────────


def _moving(send: Send) -> None:
    """Drawn anew by itself when the send has moved on."""
    if send.state == "sending":
        st.info("It is on its way. It cannot be taken back.", icon=":material/outgoing_mail:")
    elif send.decided_send and send.due_at is not None:
        words = f"**Goes out at {clock_s(send.due_at)} UTC.** {_decided(send.decided, send)}"
        st.success(words, icon=":material/schedule_send:")
        if session.may_decide() and st.button(
            "Take it back", width="stretch", key=f"back_{send.id}_{send.version}"
        ):
            _press(send, "taken back", lambda tx, act: decisions.take_back(tx, send.id, act))
    else:
        st.info("It is ready to go. The next free worker takes it.", icon=":material/schedule_send:")
    offer_next(send)
    if _has_moved(send):  # after the button: a press that comes too late is answered
        st.rerun()


def _has_moved(send: Send) -> bool:
    if session.figures().gone_since is not None:
        return False
    return session.read(lambda tx: views_review.version(tx, send.id)) != send.version


# ── Ended ─────────────────────────────────────────────────────────────────────────────────────────────


def _ended(send: Send) -> None:
    decided = send.decided if send.decided and send.decided.version == send.version else None
    if decided is not None:
        st.success(_closing(decided, send), icon=":material/check_circle:")
        if decided.contradicted_at is not None:
            _contradicted(decided, send)
    elif send.state == "closed":
        why = harmless(send.closed_why) or "One e-mail may have gone out."
        st.info(f"**Closed.** {why} Nothing more goes out under this key.", icon=":material/lock:")
    elif send.state == "failed":
        st.info("**Its time to try was over.** Nothing went out.", icon=":material/timer_off:")
    if send.message_id:
        st.caption(f"Message number at {provider(send.provider)}:")
        st.code(shown(send.message_id), language=None)
    st.caption(_key_kept(send))
    if send.key_kept:
        st.caption(session.periods_of())


def _contradicted(decided: Decided, send: Send) -> None:
    at = clock(decided.contradicted_at, send.now) if decided.contradicted_at else ""
    then = (
        "Open it again to decide anew."
        if decided.state == "sent"
        else "It cannot be undone; nothing more goes out. If they were told that nothing was sent, tell them."
    )
    st.warning(
        f"**This decision was contradicted later.** Proof came at {at} UTC: {otherwise(decided).lower()}. {then}",
        icon=":material/warning:",
    )


def _key_kept(send: Send) -> str:
    """How long the same key finds this send, and what a proposal with it is then."""
    settings = session.house().settings
    if not send.key_kept:
        return "Its own key is no longer kept. The same key would be a new send now."
    if send.kind in settings.once_ever or send.settled_at is None:
        return "Its own key is kept for good: under it nothing else goes out, ever."
    until = send.settled_at + timedelta(days=settings.retention.of(send.namespace).action_keys_days)
    return f"Its own key is kept until {day(until)}. Until then nothing else goes out under it; after it, the same key is a new send."


def _closing(decided: Decided, send: Send) -> str:
    by = f"by {_who(decided)}, at {clock_s(decided.at)} UTC"
    entry = f"Audit entry {decided.audit_id:,}."
    if send.successor is not None:
        return f"**Sent again with a new key, {by}.** This one is closed in its place. {entry}"
    match decided.act:
        case "closed as sent":
            return f"**Closed as sent, {by}.** Nothing more goes out. {entry}"
        case "declined":
            return f"**Declined, {by}.** Nothing goes out. {entry}"
        case _:
            until = " until somebody opens it again" if _can_be_opened_again(send) else ", now or later"
            return f"**Closed without sending, {by}.** Nothing goes out{until}. {entry}"


def _decided(decided: Decided | None, send: Send) -> str:
    if decided is None:
        return ""
    what = "Approved" if decided.act == "approved" else "Decided"
    return f"{what} by {_who(decided)}, at {clock_s(decided.at)} UTC. Audit entry {decided.audit_id:,}."


def _who(decided: Decided) -> str:
    return "you" if decided.person_id == session.me().id else named(decided.who)


# ── Where to go from here ─────────────────────────────────────────────────────────────────────────────


def _onwards(send: Send) -> None:
    if send.successor is not None and st.button("Open the one that went instead", width="stretch"):
        open_send(send.successor)
    offer_next(send)
    if session.may_decide() and _can_be_opened_again(send):
        _offer(send, "again")
    if session.may_decide() and send.state == "failed":
        _offer(send, "give_up")


def _offer(send: Send, way: Way) -> None:
    """Behind its name, for it is rare."""
    mark = f"{way}_{send.id}_{send.version}"
    with st.expander(LABELS[way]), st.form(f"form_{mark}", border=False, enter_to_submit=False):
        why = components.reason("Why? The audit keeps your words.", key=f"why_{mark}")
        pressed = st.form_submit_button(BUTTONS[way], width="stretch")
        st.caption(CAPTIONS[way])
    if pressed and not why.strip():
        st.warning("Nothing was done. Please say why.", icon=":material/edit:")
    elif pressed:
        _press(send, AUDITED[way], partial(_by_ledger, way, send), why)


def _by_ledger(way: Way, send: Send, tx: Transaction, act: Act) -> Any:
    if way == "again":
        return decisions.reopen(tx, send.id, act)
    return decisions.give_up(tx, send.id, Seen(send.version, send.content_digest), act)


def _can_be_opened_again(send: Send) -> bool:
    """What a person or a policy closed, unless proof says it went out, a new key has taken its place, or it is too late."""
    closed = send.state in ("sent", "closed") and (send.decided is not None or bool(send.closed_why))
    return (
        closed
        and not send.is_too_late
        and send.successor is None
        and send.finding.state is not ActionState.SENT
    )


def _press(send: Send, what: str, do: Callable[[Transaction, Act], Any], why: str = "") -> None:
    form = session.form_id(send.id, send.version, what)
    show(send, session.act(what, send.id, do, form=form, why=why))
