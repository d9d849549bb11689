"""The decision: choose, say what you looked at and why, press a button that names the act.

Nothing is preselected and no button is grey. Only sending asks once more. Every form carries a one-time id, the
row's version and the content's digest.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import session
from dashboard.components import clock, said, tell, verdict_block
from dashboard.session import Result, person, read, settings
from ledger import decisions
from ledger import desk as views
from ledger.database import Transaction
from ledger.desk import Send
from ledger.records import Act, Decision, Seen

LOOKED_AT = ("Provider's own log", "Customer told us", "Our own records", "Only this page")
BUTTONS = {
    Decision.WAS_SENT: "Close as sent",
    Decision.RESEND_SAME_KEY: "Send again with the same key…",
    Decision.RESEND_NEW_KEY: "Ask a second person to agree",
    Decision.DO_NOT_SEND: "Close without sending",
}
NAMES = {
    Decision.WAS_SENT: "It was sent",
    Decision.RESEND_SAME_KEY: "Send again with the same key",
    Decision.RESEND_NEW_KEY: "Send again with a new key",
    Decision.DO_NOT_SEND: "Do not send",
}


def panel(s: Send) -> None:
    """The right column: the verdict, what became of the last act, and what can be done now."""
    if s.state == "needs_review":
        verdict_block(s.finding.verdict.value, s.finding.reasons, s.finding.key_until)
    result: Result | None = st.session_state.get(f"result-{s.id}")
    if result is not None and result.kind != "done":
        tell(result)
    if person().role not in decisions.DECIDERS:
        st.caption("You can read this. Support or admin decides.")
    elif s.state == "needs_review" and s.request:
        _second(s)
    elif s.state == "needs_review":
        _decide(s)
    elif s.state == "proposed":
        _approve(s)
    elif s.state == "approved" and s.decided_send:
        _on_its_way(s)
    else:
        _closed(s)


# ── Uncertain ─────────────────────────────────────────────────────────────────────────────────────────


def _decide(s: Send) -> None:
    choices, impossible = _choices(s)
    pick = st.radio(
        "**What should happen?**",
        list(choices),
        index=None,
        format_func=lambda d: f"**{NAMES[d]}**",
        captions=list(choices.values()),
        key=f"pick-{s.id}-{s.version}",
        width="stretch",
    )
    for words in impossible:
        st.caption(f":material/block: {words}")
    if pick is None:
        return
    against = _against(s, pick)
    if against:
        st.warning(against, icon=":material/warning:")
    with st.form(f"form-{s.id}-{s.version}-{pick}", border=False, enter_to_submit=False):
        number = ""
        if pick is Decision.WAS_SENT:
            number = st.text_input(
                "Message number at the provider", placeholder="as the provider shows it", max_chars=200
            )
        looked = st.pills("What did you look at?", LOOKED_AT, selection_mode="multi")
        why = st.text_input("Why? The audit keeps your words.", max_chars=500)
        pressed = st.form_submit_button(BUTTONS[pick], type="primary", width="stretch")
    if pressed and pick is Decision.RESEND_SAME_KEY:
        _confirm(s, tuple(looked), why)
    elif pressed:
        _carry_out(s, pick, tuple(looked), why, number)


def _choices(s: Send) -> tuple[dict[Decision, str], list[str]]:
    """What is possible now with its consequence, and what is not with its reason."""
    possible = {Decision.WAS_SENT: "Nothing goes out. It is closed as sent."}
    looking = s.evidence_until is not None and s.now < s.evidence_until
    until, impossible = s.finding.key_until, []
    if looking:
        impossible.append(
            f"We look for evidence until {clock(s.evidence_until)} UTC; sending again is off until then."
        )
    elif until is not None and s.now < until:
        possible[Decision.RESEND_SAME_KEY] = (
            "The same e-mail goes to the provider. If the first one arrived, the provider sends nothing. "
            f"One copy at most, until {clock(until)[:5]} UTC."
        )
    else:
        reason = (
            "the provider has no key that would stop a second copy." if until is None else "its key ran out."
        )
        impossible.append(f"**{NAMES[Decision.RESEND_SAME_KEY]}** is not possible: {reason}")
    if not looking:
        possible[Decision.RESEND_NEW_KEY] = (
            "Goes out as if for the first time. If the first one arrived, they get it twice. A second person must agree."
        )
    possible[Decision.DO_NOT_SEND] = (
        "Nothing goes out, now or later. If the first try failed, they get nothing."
    )
    return possible, impossible


def _against(s: Send, pick: Decision) -> str:
    sends = pick in (Decision.RESEND_SAME_KEY, Decision.RESEND_NEW_KEY)
    if sends and s.finding.verdict == "was_sent":
        return "What we found says it went out."
    if pick is Decision.WAS_SENT and s.finding.verdict == "was_not_sent":
        return "What we found says it did not go out."
    return ""


def _carry_out(s: Send, pick: Decision, looked: tuple[str, ...], why: str, number: str = "") -> None:
    seen = Seen(s.version, s.content_digest)

    def body(tx: Transaction, act: Act) -> Any:
        if pick is Decision.RESEND_NEW_KEY:
            return decisions.ask_new_key(tx, s.id, seen, act, expires_s=settings().console.request_expires_s)
        wait_s = settings().worker.decided_wait_s
        return decisions.settle(tx, s.id, seen, pick, act, message_id=number, wait_s=wait_s)

    _show(s, session.act(decisions.WORDS[pick], s.id, body, form=_form(s), reason=why, looked_at=looked))


@st.dialog("Send again with the same key?", width="medium")
def _confirm(s: Send, looked: tuple[str, ...], why: str) -> None:
    st.html(
        f"<dl class='nt-mail'><dt>To</dt><dd>{said(', '.join(s.recipients))}</dd><dt>Subject</dt><dd>{said(s.subject)}</dd></dl>"
    )
    wait_s = settings().worker.decided_wait_s
    st.markdown(
        "- If the first one arrived, the provider sends nothing. **One copy at most.**\n"
        f"- It goes in **{wait_s:g} seconds**. Until then you can take it back.\n"
        f"- If it cannot get through by {clock(s.finding.key_until)[:5]} UTC, it comes back to this desk."
    )
    with st.container(horizontal=True):
        send_it = st.button("Send it", type="primary")
        if st.button("Go back"):
            st.rerun()
    if send_it:
        _carry_out(s, Decision.RESEND_SAME_KEY, looked, why)


# ── A second person ───────────────────────────────────────────────────────────────────────────────────


def _second(s: Send) -> None:
    request = s.request
    if request is None:
        return
    own = request.requested_by == person().id
    with st.container(border=True):
        st.markdown("**You asked a second person to agree: send again with a new key.**" if own else
                    "**Somebody asks you to agree: send again with a new key.**")  # fmt: skip
        st.text(f"Asked by {request.name} at {clock(request.requested_at)} UTC")
        st.markdown(
            f"It goes out as if for the first time, in {settings().worker.decided_wait_s:g} seconds. "
            "If the first one arrived, **they get it twice**."
        )
        if own:
            st.caption("Somebody else must agree. Until then nothing goes out.")
            if st.button("Take the question back", width="stretch"):
                _answer_request(s, "disagree", (), "")
        else:
            _agree_form(s)
            with st.expander("What they looked at, and why"):
                st.text(f"{', '.join(request.looked_at)}. {request.why}")
        st.caption(f"Runs out at {clock(request.expires_at)} UTC; then it is back on the desk.")


def _agree_form(s: Send) -> None:
    with st.form(f"second-{s.id}-{s.version}", border=False, enter_to_submit=False):
        looked = st.pills("What did you look at yourself?", LOOKED_AT, selection_mode="multi")
        why = st.text_input("Why? The audit keeps your words.", max_chars=500)
        left, right = st.columns(2)
        agreed = left.form_submit_button("Agree, send it", type="primary", width="stretch")
        disagreed = right.form_submit_button("Do not agree", width="stretch")
    if agreed or disagreed:
        _answer_request(s, "agree" if agreed else "disagree", tuple(looked), why)


def _answer_request(s: Send, answer: str, looked: tuple[str, ...], why: str) -> None:
    request_id = s.request.id if s.request else 0

    def body(tx: Transaction, act: Act) -> Any:
        if answer == "agree":
            return decisions.agree(tx, request_id, act, wait_s=settings().worker.decided_wait_s)
        return decisions.disagree(tx, request_id, act)

    result = session.act(f"{answer}: a new key", s.id, body, form=_form(s), reason=why, looked_at=looked)
    if result.kind == "done" and answer == "agree":
        st.query_params["send"] = str(result.value.action_id)
        st.session_state[f"result-{result.value.action_id}"] = result
        st.rerun()
    _show(s, result)


# ── To approve, on its way, closed ────────────────────────────────────────────────────────────────────


def _approve(s: Send) -> None:
    seen = Seen(s.version, s.content_digest)
    wait_s = settings().worker.decided_wait_s
    st.markdown("**May it go out?**")
    st.caption(
        "Read the text first. The approval names exactly this content; a worker compares it before it sends."
    )
    if st.button("Approve exactly this text", type="primary", width="stretch"):
        _show(
            s,
            session.act(
                "approve",
                s.id,
                lambda tx, act: decisions.approve(tx, s.id, seen, act, wait_s=wait_s),
                form=_form(s),
            ),
        )
    if st.button("Do not send this", width="stretch"):
        _show(
            s,
            session.act(
                "decline", s.id, lambda tx, act: decisions.decline(tx, s.id, seen, act), form=_form(s)
            ),
        )


def _on_its_way(s: Send) -> None:
    st.success(f"Goes out at {clock(s.due_at)} UTC.", icon=":material/schedule_send:")
    if st.button("Take it back", width="stretch"):
        _show(
            s,
            session.act("take back", s.id, lambda tx, act: decisions.take_back(tx, s.id, act), form=_form(s)),
        )
    _watch(s.id, s.state)


def _closed(s: Send) -> None:
    last = read(lambda tx: views.last_decision(tx, s.id))
    words = {
        "sent": "It went out.",
        "closed": "Closed: nothing more goes out.",
        "declined": "Declined: nothing goes out.",
    }
    text = words.get(s.state, f"It is {s.state.replace('_', ' ')}.")
    by = f" Decided at {clock(last.at)} UTC. Audit entry {last.audit_id:,}." if last else ""
    (st.success if s.state in ("sent", "closed", "declined") else st.info)(
        text + by, icon=":material/check_circle:"
    )
    if last:
        st.text(f"{last.who}: {last.act}")
    waiting = read(lambda tx: views.queue(tx, "uncertain", most=1))
    if waiting and st.button("Open the next one", type="primary", width="stretch"):
        st.query_params["send"] = str(waiting[0].id)
        st.rerun()
    if (
        last
        and s.state in ("sent", "closed")
        and s.finding.state != "sent"
        and st.button(
            "Open it again", type="tertiary", help="Puts it back in the queue. The audit keeps both steps."
        )
    ):
        _show(
            s,
            session.act("open again", s.id, lambda tx, act: decisions.reopen(tx, s.id, act), form=_form(s)),
        )
    if s.state in ("sending", "approved"):
        _watch(s.id, s.state)


@st.fragment(run_every="1s")
def _watch(send_id: int, state: str) -> None:
    """Draws the page anew when the send has moved on."""
    now = read(lambda tx: views.send(tx, send_id))
    if now is not None and now.state != state:
        st.rerun()


def _form(s: Send) -> str:
    return f"{s.id}-{s.version}"


def _show(s: Send, result: Result) -> None:
    """Keep what became of it for the next run, which draws the send as it is now."""
    st.session_state[f"result-{s.id}"] = result
    st.rerun()
