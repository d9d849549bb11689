"""One send: what we found and what would go out on the left, the verdict and the decision on the right."""

from __future__ import annotations

import html
import json

import pandas as pd
import streamlit as st

from dashboard import session
from dashboard.components import COST, POINTS, facts, heading, looks_alike, said, span, when
from dashboard.screens import review_decide
from dashboard.session import person, read, settings
from ledger import desk as views
from ledger.desk import Send
from ledger.payload import shown
from ledger.records import Attempt, OutcomeKind, Role

REVEALS = frozenset({Role.SUPPORT, Role.ENGINEER, Role.AUDITOR, Role.ADMIN})
FOUND = {
    OutcomeKind.ACCEPTED: "Taken, with a message number",
    OutcomeKind.REFUSED: "Refused",
    OutcomeKind.NOT_SENT: "Certainly not sent",
    OutcomeKind.IN_FLIGHT: "The provider said that this key is busy",
    OutcomeKind.UNKNOWN: "The request left, no clear answer came",
}


def draw(send_id: int) -> bool:
    """False when there is no such send, or none that this person may see."""
    s = read(lambda tx: views.send(tx, send_id))
    if s is None:
        return False
    _way(s)
    first = s.recipients[0] if s.recipients else "nobody"
    more = f" and {len(s.recipients) - 1} more" if len(s.recipients) > 1 else ""
    heading(f"{html.escape(s.kind.capitalize())} to {said(first)}{more}", html.escape(_lead(s)))
    _facts(s)
    odd = looks_alike(first)
    if odd:
        st.warning(
            f"This address has a letter that only looks Latin: {', '.join(odd)}. Compare it with the address you know.",
            icon=":material/spellcheck:",
        )
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _found(s)
        if s.state == "needs_review" and s.finding.verdict == "nobody_knows":
            _how_to_find_out(s, first)
        _what_goes_out(s, first)
        _tries(s)
    with right:
        review_decide.panel(s)
    return True


def _way(s: Send) -> None:
    waiting = read(lambda tx: views.queue(tx, _segment(s)))
    ids = [row.id for row in waiting]
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button(
            f"All {len(ids)} waiting" if ids else "All that wait",
            icon=":material/arrow_back:",
            type="tertiary",
        ):
            st.query_params.clear()
            st.rerun()
        if s.id in ids:
            place = ids.index(s.id)
            st.caption(f"{place + 1} of {len(ids)}", width="content")
            following = ids[place + 1 : place + 2]
        else:
            following = ids[:1]
        if following and st.button(
            "Next", icon=":material/arrow_forward:", icon_position="right", type="tertiary"
        ):
            st.query_params["send"] = str(following[0])
            st.rerun()
        st.space("stretch")
        st.caption(f"Send {s.id} · times in UTC", width="content")


def _segment(s: Send) -> str:
    return "to_approve" if s.state == "proposed" else "second_person" if s.request else "uncertain"


def _lead(s: Send) -> str:
    if s.state == "proposed":
        return "It waits for a person to approve exactly this text. Nothing has gone out."
    if s.state == "approved":
        return f"It goes out at {when(s.due_at, s.now)} UTC."
    if s.state == "sending":
        return f"It is on its way to {s.provider}."
    if s.state == "needs_review" and s.attempts:
        return f"We gave this e-mail to {s.provider} at {when(s.attempts[-1].started_at, s.now)} UTC. It may have gone out, or not."
    return f"It is {s.state.replace('_', ' ')}."


def _facts(s: Send) -> None:
    reason = f": {html.escape(s.cost_reason[:1].lower() + s.cost_reason[1:])}" if s.cost_reason else ""
    facts(
        [
            ("About", said(shown(s.about)) if s.about else "–"),
            ("Waiting", span(s.waiting_s) if s.state in ("needs_review", "proposed") else "–"),
            ("If it goes twice", f"{COST[s.cost]}{reason}"),
            (f"Safe key at {s.provider}", html.escape(_key(s))),
        ]
    )


def _key(s: Send) -> str:
    if s.key_window_s is None:
        return f"{s.provider} has none"
    if s.finding.key_until is None:
        return f"kept for {span(s.key_window_s)} from the first try"
    left = (s.finding.key_until - s.now).total_seconds()
    return f"until {when(s.finding.key_until, s.now)}, {span(left)} left" if left > 0 else "over"


def _found(s: Send) -> None:
    st.subheader("What we found", anchor=False)
    rows = [
        (_try_name(a, len(s.attempts)), _try_found(a), _points(a), a.answered_at or a.started_at)
        for a in s.attempts
    ]
    rows += [(e.source, e.found, e.points_to.value, e.observed_at) for e in s.evidence]
    if not rows:
        st.caption("Nothing has been tried yet.")
        return
    body = "".join(
        f"<tr><td>{said(shown(asked))}</td><td>{said(shown(found))}</td>"
        f"<td><span class='nt-chip nt-{POINTS[points][1]}'>{POINTS[points][0]}</span></td>"
        f"<td class='nt-soft'>{when(at, s.now)}</td></tr>"
        for asked, found, points, at in rows
    )
    st.html(
        "<table class='nt-ev'><tr><th>We looked at</th><th>We found</th><th>Points to</th><th>UTC</th></tr>"
        f"{body}</table>"
    )


def _try_name(attempt: Attempt, total: int) -> str:
    return "First and only try" if total == 1 else f"Try {attempt.number}"


def _try_found(attempt: Attempt) -> str:
    if attempt.outcome is None:
        return "Its worker was stopped before an answer" if attempt.abandoned else "Under way"
    reason = f" ({attempt.reason.strip(' :')})" if attempt.reason.strip(" :") else ""
    return FOUND[attempt.outcome] + reason


def _points(attempt: Attempt) -> str:
    if attempt.outcome is OutcomeKind.ACCEPTED:
        return "sent"
    return "not_sent" if attempt.outcome in (OutcomeKind.REFUSED, OutcomeKind.NOT_SENT) else "neither"


def _how_to_find_out(s: Send, to: str) -> None:
    tried = [a.started_at for a in s.attempts]
    provider = settings().providers.get(s.provider)
    where = f" at {provider.log_url}" if provider and provider.log_url else ""
    with st.expander("How to find out", expanded=True, icon=":material/search:"):
        st.text(
            f"1. In {s.provider}'s own log{where}, look for mail to the address below, "
            f"from {when(min(tried), s.now)} to {when(max(tried), s.now)} UTC and a minute after.\n"
            "2. Or ask the customer whether it came.\n\n"
            "Found: choose It was sent and give its number.\n"
            "Not there: likely not sent, but a log can be late. That is a hint, not a proof."
        )
        st.code(to, language=None)


def _what_goes_out(s: Send, first: str) -> None:
    st.subheader("What would go out", anchor=False)
    with st.container(border=True):
        pairs = [("To", ", ".join(s.recipients) or first), ("Subject", s.subject or "shown to support alone")]
        rows = "".join(f"<dt>{name}</dt><dd>{said(shown(value))}</dd>" for name, value in pairs)
        st.html(f"<dl class='nt-mail'>{rows}</dl>")
        revealed = st.session_state.get(f"text-{s.id}")
        if revealed is not None:
            _text(revealed)
        elif person().role in REVEALS:
            with st.container(horizontal=True, vertical_alignment="center"):
                if st.button("Show the text", icon=":material/visibility:"):
                    st.session_state[f"text-{s.id}"] = session.reveal(s.id, f"reveal-{s.id}")
                    session.renew_form(f"reveal-{s.id}")
                    st.rerun()
                st.caption("The audit notes who reads it.", width="content")


def _text(content: bytes) -> None:
    members = json.loads(content)
    with st.container(height=190, border=False):
        st.text(shown(str(members.pop("text", ""))), width="stretch")
    rest = {name: value for name, value in members.items() if name not in ("to", "subject", "text")}
    if rest:
        with st.expander("Everything else in the request"):
            st.code(shown(json.dumps(rest, ensure_ascii=False, indent=1)), language=None)
    st.caption("Shown to you; the audit notes it.")


def _tries(s: Send) -> None:
    with st.expander(f"Tries · {len(s.attempts)}"):
        st.dataframe(
            pd.DataFrame(
                {
                    "Try": [str(a.number) for a in s.attempts],
                    "Started": [when(a.started_at, s.now) for a in s.attempts],
                    "Answered": [when(a.answered_at, s.now) for a in s.attempts],
                    "Outcome": [
                        (a.outcome or ("abandoned" if a.abandoned else "under way")).replace("_", " ")
                        for a in s.attempts
                    ],
                    "Worker": [a.worker for a in s.attempts],
                }
            ),
            hide_index=True,
            key=f"tries-{s.id}",
        )
