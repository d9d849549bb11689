"""One event whole: its story on the left, its facts, its sends and its content on the right."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from dashboard import components, session
from dashboard.screens import (
    events_body,
    events_foot,
    events_linked,
    events_list,
    events_story,
    review_became,
)
from dashboard.screens.events_story import SEND_STATES
from dashboard.screens.events_words import key_kept, moment, size
from dashboard.words import what
from ledger.payload import shown
from ledger.views import notices as views_notices
from ledger.views.event import PARTS_MAX, SendOf, Story


def draw(story: Story) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("All events", icon=":material/arrow_back:", type="tertiary"):
            events_list.back("event")
        events_foot.age()
    components.headline(story.type, story.source, events_story.became(story), events_story.lead(story))
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _story(story)
        _content(story)
    with right:
        _sends(story)
        _told(story)
        _facts(story)
        events_linked.draw(story)
        _run_again(story)


# ── Left ──────────────────────────────────────────────────────────────────────────────────────────────


def _story(story: Story) -> None:
    st.subheader("What happened", anchor=False)
    components.timeline(
        (moment(step.at, story.now), step.tone, step.mark, step.what, step.who)
        for step in events_story.steps(story)
    )
    if story.cut:
        st.caption(f"It has more parts than are shown: the newest {PARTS_MAX} of each sort are here.")
    if story.last_error and story.state != "completed":
        with st.expander("The last error"):
            st.code(shown(story.last_error), language=None, wrap_lines=True)
    for other in story.conflicts[:5]:
        if st.button(f"Compare conflict {other.id}", key=f"conflict_{other.id}", type="tertiary"):
            st.query_params["conflict"] = str(other.id)
            st.query_params.pop("event", None)
            st.rerun()


def _content(story: Story) -> None:
    st.subheader("Content", anchor=False)
    mark = f"event_{story.id}"
    found = events_body.revealed(mark)
    if story.body_bytes is None:
        st.caption("The content is no longer kept. What became of it is.")
    elif found is not None and isinstance(found[0], bytes):
        events_body.body(mark, found[0], found[1])
    else:
        st.caption(f"{size(story.body_bytes)}, exactly as received.")
        events_body.ask(mark, "Show the content", lambda why: session.reveal(story.id, why, "event"))


# ── Right ─────────────────────────────────────────────────────────────────────────────────────────────


def _sends(story: Story) -> None:
    about = [one for one in story.about_sends if one not in {own.id for own in story.sends}]
    if not story.sends and not about:
        return
    with st.container(border=True, gap="small"):
        st.markdown("**Sends because of it**" if story.sends else "**What it tells about**")
        for send in story.sends:
            _send(send)
        for action_id in about[:5]:
            _link(f"It tells about send {action_id}", action_id)


def _told(story: Story) -> None:
    """What a provider's notice says of a message, and that it is nobody's we know."""
    standings, about = session.read(lambda tx: views_notices.of_event(tx, story.id))
    if standings:
        with st.container(border=True, gap="small"):
            st.markdown("**What it says**")
            review_became.chips(standings, story.now)
            if about is None:
                st.caption("No send of ours is known by this message. It may be somebody else's mail.")


def _send(send: SendOf) -> None:
    word, tone = SEND_STATES[send.state]
    to = ", ".join(send.recipients) or ("nobody" if send.content_kept else "recipients no longer kept")
    components.chip_line(word, tone, to, send.about)
    _link(f"{what(send.kind)} {send.id} in Review", send.id)


def _link(label: str, action_id: int) -> None:
    page = st.session_state["pages"]["review"]
    st.page_link(page, label=label, icon=":material/arrow_forward:", query_params={"send": str(action_id)})


def _facts(story: Story) -> None:
    st.markdown("**Its key**")
    st.code(shown(story.event_key), language=None, wrap_lines=True)
    kept = session.house().settings.retention.of(story.namespace)
    st.caption(key_kept(story, story.accepted_at + timedelta(days=kept.event_keys_days)))
    if story.key_kept:
        st.caption(session.periods_of())
    st.markdown("**Our number**")
    st.code(f"{story.id}", language=None)
    if story.delivery_id:
        st.markdown("**First delivery's id**")
        st.code(shown(story.delivery_id), language=None, wrap_lines=True)
    components.facts_down(_pairs(story))


def _run_again(story: Story) -> None:
    """A way to a plan with this event in it; there it is said what may be done, and by whom."""
    page = st.session_state["pages"]["reprocess"]
    st.page_link(page, label="Run it again…", icon=":material/replay:", query_params={"event": f"{story.id}"})


def _pairs(story: Story) -> list[tuple[str, str]]:
    """What else is known. Some of it comes from outside."""
    happened = moment(story.occurred_at, story.now) + " UTC, says the source" if story.occurred_at else ""
    pairs = [
        ("Received", moment(story.accepted_at, story.now) + " UTC"),
        ("Happened", happened),
        ("Namespace", story.namespace),
        ("Tries", f"{story.attempts} of {story.attempts_max}"),
        ("Deliveries", f"{story.duplicates + 1:,}"),
        ("Worker", story.worker or ""),
        ("Run", f"{story.run}, {story.mode}" if story.run > 1 else ""),
        ("Content type", story.content_type),
        ("Order", events_story.order(story)),
        ("Key's rules", f"version {story.key_rule}"),
    ]
    return [(name, value) for name, value in pairs if value]
