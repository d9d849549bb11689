"""One send: what we found and what would go out on the left, the verdict and the decision on the right."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import components, session
from dashboard.house import Visit
from dashboard.letters import odd_letters
from dashboard.screens import (
    review_became,
    review_decide,
    review_found,
    review_hints,
    review_look,
    review_settled,
    review_way,
)
from dashboard.words import COSTS, clock, clock_s, key_words, named, provider, span, what
from ledger.payload import shown
from ledger.records import Role
from ledger.verdict import VerdictWord
from ledger.views import review as views_review
from ledger.views.review import Send

WHY_FIRST = frozenset({Role.ENGINEER, Role.AUDITOR})  # who says why before reading a text
HEAD = (("From", "sender"), ("Cc", "cc"), ("Bcc", "bcc"), ("Reply-To", "reply_to"))


def draw(send: Send) -> None:
    components.from_the_top(review_way.opened())
    _way(send)
    to = send.recipients if send.content_kept else ("(no longer kept)",)
    components.heading(what(send.kind), to, review_found.lead(send))
    _facts(send)
    _in_place_of(send)
    _warn_of_look_alikes(send)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.subheader("What we found", anchor=False)
        found = review_found.rows(send, session.kind_of(send.provider))
        if found:
            components.evidence(found)
        else:
            st.caption("Nothing has been tried yet.")
        review_look.draw(send)
        review_became.draw(send)
        if send.state == "needs_review" and send.finding.verdict == "nobody_knows" and send.attempts:
            _how_to_find_out(send)
        _what_goes_out(send)
        _tries(send)
        _event(send)
    with right:
        _right(send)


def _right(send: Send) -> None:
    """Each in a place of its own. Streamlit knows a part that runs by itself by where it stands, and drops a press in one
    that moved: a choice would stand on the page as made, and its form would never come (1.67, `request_rerun`).
    """
    known, told, hints, decision = (st.container() for _ in range(4))
    with known:
        _verdict(send)
    with told:
        review_settled.last_result(send)
    with hints:
        review_hints.panel(send)
    with decision:
        review_decide.panel(send) if _waits(send) else review_settled.panel(send)


def _verdict(send: Send) -> None:
    if _has_verdict(send):
        until = clock(send.finding.key_until, send.now) if send.finding.key_until else ""
        if send.state != "needs_review":
            st.caption(
                "What we know ourselves, apart from the decision:"
                if _is_settled(send)
                else "What is known of it:"
            )
        components.verdict_block(send.finding.verdict.value, send.finding.reasons, until, waits=_waits(send))


def _is_settled(send: Send) -> bool:
    """By a person, as it is now: what they found out stands below, and evidence knows nothing of it."""
    return send.decided is not None and send.decided.version == send.version


def _has_verdict(send: Send) -> bool:
    """Nothing about what may be tried, once nothing will be tried any more."""
    if not send.attempts or send.state in ("approved", "sending"):
        return False
    return send.state == "needs_review" or send.finding.verdict is not VerdictWord.SAFE_TO_TRY_AGAIN


# ── Above ─────────────────────────────────────────────────────────────────────────────────────────────


def _way(send: Send) -> None:
    ids = review_way.waiting(part := review_way.part(send))
    at = ids.index(send.id) if send.id in ids else None
    with st.container(horizontal=True, vertical_alignment="center"):
        if {"cause", "list"} & set(st.query_params) and st.button(
            "Back to the list", icon=":material/list:", type="tertiary"
        ):
            st.query_params.pop("send")
            st.rerun()
        if st.button(f"All {len(ids)} waiting", icon=":material/arrow_back:", type="tertiary"):
            st.query_params.clear()
            st.session_state["segment"] = part
            st.rerun()
        if at is not None:
            st.caption(f"{at + 1} of {len(ids)}", width="content")
        following = review_way.others(send, ids[at + 1 :] if at is not None else ids)
        if following and st.button(
            "Next", icon=":material/arrow_forward:", icon_position="right", type="tertiary"
        ):
            review_way.open_send(following[0])
        st.fragment(_beside, run_every=session.refresh_s())(send.id, send.version, is_open=_is_open(send))


def _is_open(send: Send) -> bool:
    """Whether anybody is still to choose: what a second person is asked about, the first has chosen."""
    return _waits(send) and send.request is None


def _waits(send: Send) -> bool:
    return send.state in ("needs_review", "proposed")


def _beside(action_id: int, drawn: int, *, is_open: bool) -> None:
    """Who else has this open, and whether it is still as drawn. No lock: the ledger settles who is first."""
    glance = session.figures()
    if glance.gone_since is not None:
        components.database_gone(glance.gone_since, None, session.refresh_s())
        return
    choosing = is_open and bool(st.session_state.get(f"pick_{action_id}_{drawn}"))
    others = session.beside(action_id, choosing=choosing, version=drawn)
    changed = session.read(lambda tx: views_review.version(tx, action_id)) != drawn
    with st.container(horizontal=True, horizontal_alignment="right"):
        if changed:
            if st.button(
                "It changed. Show it as it is now", icon=":material/update:", key=f"anew_{action_id}"
            ):
                st.rerun()
        else:
            st.caption(_who_else(others, is_open=is_open), width="content")


def _who_else(others: list[Visit], *, is_open: bool) -> str:
    people = {
        visit.person_id: visit for visit in sorted(others, key=lambda visit: visit.choosing_since is not None)
    }
    words = [
        f":material/visibility: {named(visit.name)} {_doing(visit, is_open=is_open)}."
        for visit in people.values()
    ]
    return " ".join(words[:2]) or components.zone()


def _doing(visit: Visit, *, is_open: bool) -> str:
    if not is_open:  # it is decided, or asked: nobody is to choose any more
        return "has this open too"
    since = visit.choosing_since
    return f"is deciding this since {clock(since)} UTC" if since else "has this open and has not chosen yet"


def _facts(send: Send) -> None:
    name, until = provider(send.provider), send.finding.key_until
    left_s = (until - send.now).total_seconds() if until else None
    reason = f": {send.cost_reason[:1].lower()}{send.cost_reason[1:]}" if send.cost_reason else ""
    unused = send.key_window_s is not None and until is None
    safe_key = "not used yet" if unused else key_words(name, left_s, until, send.now)
    components.facts(
        [
            ("About", send.about or "–"),
            *([("Waiting", span(send.waiting_s))] if _waits(send) else []),
            *(
                [("To be sent before", f"{clock(send.send_before, send.now)} UTC")]
                if send.send_before
                else []
            ),
            ("If it goes twice", COSTS[send.cost] + reason),
            (f"Safe key at {name}", safe_key if send.key_kept else "no longer kept"),
        ]
    )


def _in_place_of(send: Send) -> None:
    """What came before stands with the send that this one replaces."""
    if send.predecessor is None:
        return
    known = ", which nobody knows about" if send.predecessor_unknown else ""
    if st.button(f"In place of Send {send.predecessor}{known}", icon=":material/history:", type="tertiary"):
        review_way.open_send(send.predecessor)


def _warn_of_look_alikes(send: Send) -> None:
    odd = [name for address in send.recipients for name in odd_letters(address)]
    if odd:
        st.warning(
            f"This address has a character that is hidden, or only looks Latin: {', '.join(odd[:5])}. "
            "Compare it with the address you know.",
            icon=":material/spellcheck:",
        )


# ── Left ──────────────────────────────────────────────────────────────────────────────────────────────


def _how_to_find_out(send: Send) -> None:
    with st.expander("How to find out", expanded=True, icon=":material/search:"):
        _open_log(send)  # first, so that it is in view: whoever has it open needs the rest no more
        st.markdown(review_found.how_to_find_out(send))
        st.code("\n".join(shown(address) for address in send.recipients), language=None)
        if send.subject:  # what tells this one from others to the same customer
            st.code(shown(send.subject), language=None)


def _open_log(send: Send) -> None:
    configured = session.house().settings.providers.get(send.provider)
    if configured and configured.log_url:
        address = configured.log_of(send.subject, review_found.searched_recipient(send))
        st.link_button(f"Open {provider(send.provider)}'s log", address, icon=":material/open_in_new:")


def _what_goes_out(send: Send) -> None:
    st.subheader("What would go out" if send.state != "sent" else "What went out", anchor=False)
    if not send.content_kept:
        st.caption("The text and its recipients are no longer kept. Their digest is.")
        return
    with st.container(border=True):
        given = [(label, _listed(send.head.get(name))) for label, name in HEAD]
        subject = send.subject or ("(none)" if send.head else "hidden from your role")
        components.mail_head([given[0], ("To", ", ".join(send.recipients)), *given[1:], ("Subject", subject)])
        revealed: tuple[bytes, str] | None = st.session_state.get(f"text_{send.id}")
        if revealed is not None:
            _text(send, *revealed)
        elif session.chosen().role in session.REVEALERS:
            _ask_for_text(send)


def _listed(value: Any) -> str:
    return ", ".join(str(v) for v in value) if isinstance(value, list) else str(value or "")


def _ask_for_text(send: Send) -> None:
    why = ""
    if session.chosen().role in WHY_FIRST:
        why = components.reason("Why do you read it? The audit keeps your words.", key=f"read_{send.id}")
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button("Show the text", icon=":material/visibility:", key=f"show_{send.id}")
        st.caption(f"{review_found.size_of_text(send)}. The audit notes who reads it.", width="content")
    if pressed and session.chosen().role in WHY_FIRST and not why.strip():
        st.warning("Nothing was shown. Please say why.", icon=":material/edit:")
    elif pressed:
        _reveal(send, why)


def _reveal(send: Send, why: str) -> None:
    result = session.reveal(send.id, why)
    if isinstance(result, session.Done):
        st.session_state[f"text_{send.id}"] = (result.value, clock_s(send.now))
        st.rerun()
    components.outcome(result)


def _text(send: Send, content: bytes, at: str) -> None:
    members = json.loads(content)
    with st.container(height=190, border=False):
        st.text(shown(str(members.get("text", ""))), width="stretch")
    if members.get("html"):
        with st.expander("The HTML part, as it is written"):
            st.code(shown(str(members["html"])), language=None, wrap_lines=True)
    st.caption(f"{review_found.size_of_text(send)}. Shown to you at {at} UTC; the audit notes it.")


def _tries(send: Send) -> None:
    with st.expander(review_found.tries_label(send)):
        table = {
            "Try": [str(a.number) for a in send.attempts],
            "Started (UTC)": [_exact(a.started_at, send) for a in send.attempts],
            "Answered (UTC)": [_exact(a.answered_at, send) if a.answered_at else "–" for a in send.attempts],
            "What came of it": [shown(review_found.tried(a)) for a in send.attempts],
            "Worker": [shown(a.worker) for a in send.attempts],
        }
        st.dataframe(pd.DataFrame(table), hide_index=True, key=f"tries_{send.id}", row_height=38)


def _exact(at: Any, send: Send) -> str:
    day = "" if at.date() == send.now.date() else f"{at.day} {at:%b} "
    return day + clock_s(at)


def _event(send: Send) -> None:
    with st.expander("The event behind it"):
        event_id = send.event_id
        event = session.read(lambda tx: views_review.event_behind(tx, event_id)) if event_id else None
        if event is None:
            st.caption("None: an application proposed this send by itself.")
            return
        components.facts(
            [
                ("What", f"{event.type} from {event.source}"),
                ("Received", f"{clock(event.accepted_at, send.now)} UTC"),
                ("Deliveries", f"{event.deliveries:,}"),
                ("State", event.state),
            ]
        )
        st.code(shown(event.event_key), language=None)
        events = st.session_state["pages"]["events"]
        st.page_link(
            events,
            label="Its whole story",
            icon=":material/arrow_forward:",
            query_params={"event": str(event.id)},
        )
