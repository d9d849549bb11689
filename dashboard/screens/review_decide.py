"""The decision about one send: choose, say what you looked at and why, press a button that names the act.

Nothing is preselected and no button is grey: pressed too early it says what is missing. Only sending asks once
more. The row's version, the content's digest and a one-time id travel with every press.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard import components, session
from dashboard.screens import review_found, review_number, review_said, review_second
from dashboard.screens.review_number import NONE, Number
from dashboard.screens.review_said import Said
from dashboard.screens.review_settled import refused_beside, show
from dashboard.words import clock, harmless, provider
from ledger import decisions
from ledger.database import Transaction
from ledger.records import Act, Decision, Seen
from ledger.verdict import VerdictWord
from ledger.views.review import Send

NAMES = {
    Decision.WAS_SENT: "It was sent",
    Decision.RESEND_SAME_KEY: "Send again with the same key",
    Decision.RESEND_NEW_KEY: "Send again with a new key",
    Decision.DO_NOT_SEND: "Do not send",
}
BUTTONS = {
    Decision.WAS_SENT: "Close as sent",
    Decision.RESEND_SAME_KEY: "Send again with the same key…",
    Decision.RESEND_NEW_KEY: "Ask a second person to agree",
    Decision.DO_NOT_SEND: "Close without sending",
}
READS_ONLY = "You can read this. Support or admin decides."


def panel(send: Send) -> None:
    """Each in a fragment: a press on a page that is stale runs with what was drawn, so that it is answered."""
    if not session.may_decide():
        st.caption(READS_ONLY)
    elif send.state == "proposed":
        st.fragment(_approve)(send)
    elif send.request:
        st.fragment(review_second.panel)(send, send.request)
    else:
        st.fragment(_decide)(send)


# ── An uncertain send ─────────────────────────────────────────────────────────────────────────────────


def _decide(send: Send) -> None:
    captions = possible(send)
    pick = st.radio(
        "**What should happen?**",
        list(captions),
        index=None,
        format_func=lambda decision: f"**{NAMES[decision]}**",
        captions=list(captions.values()),
        key=f"pick_{send.id}_{send.version}",
        width="stretch",
    )
    session.beside(
        send.id, choosing=pick is not None, version=send.version
    )  # at once, not with the next tick
    if pick is None:
        _tell_left_off(send)
    else:
        _chosen(send, pick)
    for sentence in impossible(send):  # below the form, which belongs to the choice
        st.caption(f":material/block: {sentence}")


def _chosen(send: Send, pick: Decision) -> None:
    against = contradiction(send, pick)
    if against:
        st.warning(against, icon=":material/warning:")
    number, said, pressed = _form(send, pick)
    refused_beside(send)
    if not pressed or number.is_doubted:
        return
    found = None if pick is Decision.RESEND_NEW_KEY else send.finding
    missing = session.incomplete(said.why, said.looked, found, pick)
    if missing:
        st.warning(harmless(missing), icon=":material/edit:")
    elif pick is Decision.RESEND_SAME_KEY:
        _confirm(send, said)
    else:
        carry_out(send, pick, said, number)


def _tell_left_off(send: Send) -> None:
    """A choice is no decision, and a page that starts afresh does not have it; its person is told."""
    since = session.left_off(send.id, send.version)
    if since is not None:
        st.info(
            f"You began to decide this at {clock(since, send.now)} UTC, before this page started afresh or in another "
            "window. What you pressed is recorded; what you had chosen or written and not pressed is not here.",
            icon=":material/history:",
        )


def _form(send: Send, pick: Decision) -> tuple[Number, Said, bool]:
    mark = f"{send.id}_{send.version}"
    with st.form(f"form_{mark}", border=False, enter_to_submit=False):
        number = review_number.field(send) if pick is Decision.WAS_SENT else NONE
        said = review_said.asked(mark, pick, "What did you look at?")
        if pick is Decision.WAS_SENT:
            number = review_number.asked_again(send, number)
        pressed = st.form_submit_button(BUTTONS[pick], type="primary", width="stretch")
    return number, said, pressed


def possible(send: Send) -> dict[Decision, str]:
    """What can be decided now, each with its consequence."""
    name, until = provider(send.provider), send.finding.key_until
    captions = {Decision.WAS_SENT: "Nothing goes out. It is closed as sent."}
    if not review_found.looking_for_evidence(send) and not send.is_too_late:
        if _not_sent(send) and send.generation == 1:
            captions[Decision.RESEND_SAME_KEY] = (
                f"The same e-mail goes to {name}, as if nothing had happened. We have proof that the first one did not go."
            )
        elif not (_not_sent(send) or send.earlier_went) and until is not None and send.now < until:
            agreed = " It stays the one e-mail that two people agreed to." if send.generation > 1 else ""
            captions[Decision.RESEND_SAME_KEY] = (
                f"The same e-mail goes to {name}. If the first one arrived, {name} sends nothing. "
                f"One copy at most, until {clock(until, send.now)} UTC.{agreed}"
            )
        captions[Decision.RESEND_NEW_KEY] = (
            "Goes out as if for the first time. If the first one arrived, they get it twice. "
            "A second person must agree."
        )
    captions[Decision.DO_NOT_SEND] = (
        "Nothing goes out, now or later. If the first try failed, they get nothing."
    )
    return captions


def impossible(send: Send) -> list[str]:
    """Why a choice that people look for is not among them."""
    if review_found.looking_for_evidence(send):
        return [review_found.looking_words(send)]
    if send.is_too_late and send.send_before:
        until = f"it was to go out before {clock(send.send_before, send.now)} UTC"
        return [
            f"**Sending it again** is not possible: {until}. After that it is worth nothing to whom it should go."
        ]
    name, until = provider(send.provider), send.finding.key_until
    if _not_sent(send) and send.generation > 1:
        return [
            f"**{NAMES[Decision.RESEND_SAME_KEY]}** is not possible: this stands in the place of an earlier send, which may "
            "have gone out, and what two people had agreed to is over. A second person must agree anew."
        ]
    if _not_sent(send):
        return []
    if send.earlier_went:
        return [
            f"**{NAMES[Decision.RESEND_SAME_KEY]}** is not possible: the send in whose place it stands went out after all, so "
            "this is another copy. A second person must agree anew."
        ]
    if until is None:
        return [
            f"**{NAMES[Decision.RESEND_SAME_KEY]}** is not possible: {name} has no key that would stop a second copy."
        ]
    if send.now >= until:
        return [
            f"**{NAMES[Decision.RESEND_SAME_KEY]}** is not possible: the key ran out at {clock(until, send.now)} UTC."
        ]
    return []


def _not_sent(send: Send) -> bool:
    return send.finding.verdict is VerdictWord.WAS_NOT_SENT


def contradiction(send: Send, pick: Decision) -> str:
    """Friction where a choice disagrees with what the page shows."""
    verdict = send.finding.verdict
    if verdict is VerdictWord.WAS_SENT and pick is not Decision.WAS_SENT:
        return "What we found says it went out."
    if verdict is VerdictWord.WAS_NOT_SENT and pick is Decision.WAS_SENT:
        return "What we found says it did not go out."
    return ""


def carry_out(send: Send, pick: Decision, said: Said, number: Number = NONE) -> None:
    seen, settings = Seen(send.version, send.content_digest), session.house().settings

    def do(tx: Transaction, act: Act) -> Any:
        if pick is Decision.RESEND_NEW_KEY:
            return decisions.ask_new_key(tx, send.id, seen, act, expires_s=settings.console.request_expires_s)
        wait_s = settings.worker.decided_wait_s
        typed, read_in = number.message_id, number.read_in
        return decisions.settle(
            tx, send.id, seen, pick, act, message_id=typed, read_in=read_in, wait_s=wait_s
        )

    form = session.form_id(send.id, send.version, pick, send.asked_before)
    show(
        send,
        session.act(decisions.WORDS[pick], send.id, do, form=form, why=said.why, looked_at=said.looked),
    )


@st.dialog("Send again with the same key?", width="medium")
def _confirm(send: Send, said: Said) -> None:
    name, wait_s = provider(send.provider), session.house().settings.worker.decided_wait_s
    until = clock(send.finding.key_until, send.now) if send.finding.key_until else "then"
    components.mail_head([("To", ", ".join(send.recipients)), ("Subject", send.subject)])
    protects = f"If the first one arrived, {name} sends nothing. **One copy at most.**"
    ends = f"If it cannot get through by {until} UTC, it comes back to this desk."
    facts = [
        "The first one did not go out. **One copy at most.**" if _not_sent(send) else protects,
        f"It goes in **{wait_s:g} seconds**. Until then you can take it back.",
        *([] if _not_sent(send) else [ends]),
    ]
    st.markdown("\n".join(f"- {fact}" for fact in facts))
    with st.container(horizontal=True):
        send_it = st.button("Send it", type="primary")
        if st.button("Go back"):
            st.rerun()
    if send_it:
        carry_out(send, Decision.RESEND_SAME_KEY, said)


# ── A send to approve ─────────────────────────────────────────────────────────────────────────────────


def _approve(send: Send) -> None:
    seen, wait_s = Seen(send.version, send.content_digest), session.house().settings.worker.decided_wait_s
    late = f"It was to go out before {clock(send.send_before, send.now)} UTC." if send.send_before else ""
    st.markdown("**It is too late for it.**" if send.is_too_late else "**May it go out?**")
    st.caption(
        f"{late} Nothing goes out after that; it is closed by itself."
        if send.is_too_late
        else "Read the text first. The approval names exactly this content, which is compared again before it is sent. "
        f"It goes in {wait_s:g} seconds; until then it can be taken back."
    )

    def press(label: str, what: str, do: Callable[[Transaction, Act], Any], kind: str) -> None:
        if st.button(label, type=kind, width="stretch", key=f"{what}_{send.id}"):  # type: ignore[arg-type]
            show(send, session.act(what, send.id, do, form=session.form_id(send.id, send.version, what)))

    approve = lambda tx, act: decisions.approve(tx, send.id, seen, act, wait_s=wait_s)  # noqa: E731
    if not send.is_too_late:
        press("Approve exactly this text", "approved", approve, "primary")
    press(
        "Do not send this", "declined", lambda tx, act: decisions.decline(tx, send.id, seen, act), "secondary"
    )
