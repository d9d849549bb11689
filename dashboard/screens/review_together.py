"""Many sends with one cause: all of them on the left, one decision for all on the right. Never a new key.

What was seen of each travels with the press; what changed since is left alone by the ledger, and the list that was
decided says so row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn

import pandas as pd
import streamlit as st

from dashboard import components, session
from dashboard.colours import PILLS
from dashboard.lists import listed, offer_first
from dashboard.screens.review_causes import cause_words, go
from dashboard.screens.review_decide import NAMES, READS_ONLY
from dashboard.screens.review_fitting import OFFERED, alone_words, fitting, rests_on
from dashboard.screens.review_queue import GLYPHS, PILL_STATES, recipients_words
from dashboard.screens.review_said import LOOKED_AT
from dashboard.words import harmless, key_words, many, provider, span, what
from ledger import decisions, together
from ledger.database import Transaction
from ledger.payload import shown
from ledger.records import Act, Decision, Seen
from ledger.records.together import Listed, Shared, Terms
from ledger.views.together import Group, Member

CHANCED = "▲ May have gone out"


def draw(group: Group) -> None:
    _way()
    st.title(f"{many(group.cause.n, 'send shares', 'sends share')} one cause.", anchor=False)
    st.markdown(f"{what(group.cause.kind)}: {cause_words(group.cause, group.now)}.")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _table(group)
    with right:
        with st.container():  # a place of its own: see review_send
            last_result()
        if session.may_decide():
            st.fragment(_decide)(group)
        else:
            st.caption(READS_ONLY)


def none_waits() -> None:
    """Its sends have all left the desk since the address was made."""
    _way()
    st.title("None of these waits any more.", anchor=False)
    last_result()


def _way() -> None:
    if st.button("All that wait", icon=":material/arrow_back:", type="tertiary"):
        go({})


def last_result() -> None:
    result = st.session_state.pop("together_result", None)
    if result is not None:
        components.outcome(result, "group")


# ── All of them ───────────────────────────────────────────────────────────────────────────────────────


def _table(group: Group) -> None:
    if group.cause.n > len(group.members):
        st.caption(
            f"The first {len(group.members):,}, which have waited longest. The others come when these are decided."
        )
    text, pills = st.column_config.TextColumn, PILLS[components.mode()]
    known = st.column_config.MultiselectColumn(
        options=[*GLYPHS.values(), CHANCED],
        color=[pills[state] for state in (*PILL_STATES, "waiting")],
        width=168,
    )
    columns = {
        "To": text(width=165),
        "About": text(width=96),
        "What we know": known,
        "Rests on": text(width=190),
        "Safe key": text(width=132),
        "Waiting": text(width=70, alignment="right"),
    }
    ids = [member.id for member in group.members]
    listed("send", frame(group), ids, columns, mark="cause", height="auto")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Tick a row's box to look at one by itself.", width="content")
        offer_first("Open the first", "send", ids[0], mark="cause")


def frame(group: Group) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "To": [recipients_words(member.recipients) for member in group.members],
            "About": [shown(member.about) for member in group.members],
            "What we know": [[_known(member)] for member in group.members],
            "Rests on": [rests_on(member.rest) for member in group.members],
            "Safe key": [_key(member, group) for member in group.members],
            "Waiting": [span(member.waiting_s) for member in group.members],
        }
    )


def _known(member: Member) -> str:
    if member.rest.points_to_sent:
        return CHANCED
    return GLYPHS["looking" if member.looking_s > 0 else member.verdict or "nobody_knows"]


def _key(member: Member, group: Group) -> str:
    until = None if member.key_left_s is None else group.now + timedelta(seconds=member.key_left_s)
    return key_words(provider(group.cause.provider), member.key_left_s, until, group.now)


# ── One decision ──────────────────────────────────────────────────────────────────────────────────────


def _decide(group: Group) -> None:
    wait_s = session.house().settings.worker.decided_wait_s
    fit = {decision: fitting(group, decision, wait_s) for decision in OFFERED}
    pick = _choice(group, fit)
    for sentence in _impossible(group, fit):
        st.caption(f":material/block: {sentence}")
    if pick is not None:
        _form(group, pick, fit[pick])


def _choice(group: Group, fit: dict[Decision, list[Member]]) -> Decision | None:
    offered = [decision for decision in OFFERED if fit[decision]]
    if not offered:
        st.markdown("**None of them can be decided with the others.**")
        return None
    return st.radio(
        "**What should happen to them?**",
        offered,
        index=None,
        format_func=lambda decision: f"**{NAMES[decision]}** · {len(fit[decision]):,}",
        captions=[_caption(group, decision, len(fit[decision])) for decision in offered],
        key=f"together_{group.cause.id}",
        width="stretch",
    )


def _caption(group: Group, decision: Decision, n: int) -> str:
    name = provider(group.cause.provider)
    match decision:
        case Decision.WAS_SENT:
            return f"Only {n:,}, each with a message that may be no other send's. That is a hint, not a proof. Nothing goes out."
        case Decision.RESEND_SAME_KEY:
            return f"The same e-mails go to {name}, two a second. If a first one arrived, {name} sends nothing. One copy at most."
        case _:
            return "Nothing goes out, now or later. Nothing was found of them: those of whom the first try failed get nothing."


def _impossible(group: Group, fit: dict[Decision, list[Member]]) -> list[str]:
    told = ["**A new key** is never given to many at once: each may be a second copy."]
    resend, plain = len(fit[Decision.RESEND_SAME_KEY]), len(fit[Decision.DO_NOT_SEND])
    if resend < plain:
        name = provider(group.cause.provider)
        of = "any" if not resend else f"{plain - resend:,}"
        told.insert(
            0,
            f"**The same key again** is not possible for {of} of them: {name} has no key for them that holds.",
        )
    if len(group.members) - plain and plain:
        told.append(
            f"What may have gone out ({len(group.members) - plain:,}) is not closed or sent with the others."
        )
    alone = alone_words(group)
    if alone:
        told.append(f"**It was sent** is not said of all in common. {alone}")
    return told


def _form(group: Group, pick: Decision, members: list[Member]) -> None:
    who, above = session.me(), session.house().settings.console.second_person_above
    because = session.read(lambda tx: together.needs_second(tx, who, len(members), above))
    with st.form(f"together_form_{group.cause.id}", border=False, enter_to_submit=False):
        looked = st.pills(
            "What did you look at?",
            LOOKED_AT,
            selection_mode="multi",
            key=f"together_looked_{group.cause.id}",
        )
        why = components.reason("Why? The audit keeps your words.", key=f"together_why_{group.cause.id}")
        pressed = st.form_submit_button(
            _label(pick, len(members), asks=bool(because)), type="primary", width="stretch"
        )
    if because:
        st.caption(f":material/group: A second person must agree: {harmless(because)}.")
    if not pressed:
        return
    missing = session.incomplete(why, tuple(looked))
    if missing:
        st.warning(harmless(missing), icon=":material/edit:")
    elif pick is Decision.RESEND_SAME_KEY and not because:
        _confirm(group, members, tuple(looked), why)
    else:
        carry_out(group, pick, members, tuple(looked), why)


def _label(pick: Decision, n: int, *, asks: bool) -> str:
    if asks:
        return f"Ask a second person about {n:,}"
    match pick:
        case Decision.WAS_SENT:
            return f"Close {n:,} as sent"
        case Decision.RESEND_SAME_KEY:
            return f"Send {n:,} again with the same key, 2 a second…"
        case _:
            return f"Close {n:,} as not sent"


@st.dialog("Send them again with the same key?", width="medium")
def _confirm(group: Group, members: list[Member], looked: tuple[str, ...], why: str) -> None:
    name, wait_s = provider(group.cause.provider), session.house().settings.worker.decided_wait_s
    last_s = wait_s + (len(members) - 1) * together.PACE_S
    st.markdown(
        f"- {many(len(members), 'e-mail')}, each with the key it had. If a first one arrived, {name} sends nothing. "
        "**One copy at most.**\n"
        f"- The first goes in **{wait_s:g} seconds**, the last in {span(last_s)}. Until it goes, each can be taken back.\n"
        "- One that cannot get through while its key holds comes back to this desk."
    )
    with st.container(horizontal=True):
        send_them = st.button("Send them", type="primary")
        if st.button("Go back"):
            st.rerun()
    if send_them:
        carry_out(group, Decision.RESEND_SAME_KEY, members, looked, why)


def carry_out(
    group: Group, pick: Decision, members: list[Member], looked: tuple[str, ...], why: str
) -> NoReturn:
    """One press, one list: with what was seen of each."""
    settings = session.house().settings
    rows = [Listed(member.id, Seen(member.version, member.content_digest)) for member in members]
    terms = Terms(
        cause_words(group.cause, group.now),
        wait_s=settings.worker.decided_wait_s,
        second_person_above=settings.console.second_person_above,
        expires_s=settings.console.request_expires_s,
    )

    def do(tx: Transaction, act: Act) -> Any:
        return together.decide(tx, rows, pick, act, terms)

    form = session.form_id("together", pick, *(f"{row.action_id}.{row.seen.version}" for row in rows))
    finish(f"{decisions.WORDS[pick]}, together", 0, do, form=form, why=why, looked_at=looked)


def finish(what_: str, list_id: int, do: Callable[[Transaction, Act], Any], **given: Any) -> NoReturn:
    """Carry out, and go to the list that was made; what was not done is said where it was pressed."""
    result = session.act(what_, list_id, do, entity="together", **given)
    if isinstance(result, session.Done) and isinstance(result.value, Shared):
        st.toast("Done. The audit has it.", icon=":material/check_circle:")
        go({"list": str(result.value.id)})
    if not isinstance(result, session.Done):
        st.session_state["together_result"] = result
    st.rerun()
