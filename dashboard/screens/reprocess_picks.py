"""What goes out again is picked one by one, by its number: a send with its stored content, or what a handler proposed anew."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import components, paging, session
from dashboard.words import many, what
from ledger.records.reprocess import RunMode, Wanted
from ledger.views import picks as views_picks
from ledger.views.picks import Pick

ROWS = paging.ROWS


def draw(ids: Sequence[int]) -> None:
    """The list to pick from, once it was asked for."""
    _start_anew_for(ids)
    if not st.session_state.get("rerun_picking"):
        st.button("Pick what to send again", on_click=_begin, icon=":material/checklist:")
        return
    _once_ever()
    after = paging.place("rerun_pick") or 0
    sends = session.read_soon(
        lambda tx: views_picks.sends(tx, ids, _kinds(), session.chosen().role, after=after, most=ROWS + 1)
    )
    found = session.read_soon(lambda tx: views_picks.found(tx, ids, _kinds(), session.chosen().role))
    if not (sends or found):
        st.caption("These events made no send, and none of their handlers proposed one when it ran again.")
        return
    st.markdown(f"**Pick what to send again.** {_so_far()}")
    for pick in sends[:ROWS]:
        _pick(pick)
    paging.foot("rerun_pick", sends[ROWS - 1].row.action_id if len(sends) > ROWS else None, "sends")
    if found:
        st.markdown("**What their handlers proposed when they ran again**")
    for pick in found:
        _pick(pick)


def wanted() -> Wanted | None:
    """What was picked, as a run would have it; None: nothing yet."""
    rows = [pick.row for pick in picked().values()]
    if not rows:
        return None
    actions = sorted(row.action_id for row in rows if row.action_id is not None)
    findings = sorted(row.finding_id for row in rows if row.finding_id is not None)
    return Wanted(
        RunMode.REPEAT, action_ids=tuple(actions), finding_ids=tuple(findings), even_once_ever=_even_once_ever()
    )  # fmt: skip


def picked() -> dict[str, Pick]:
    """By what each is called, whatever page of the list it stood on."""
    kept: dict[str, Pick] = st.session_state.setdefault("rerun_picked", {})
    return kept


def forget() -> None:
    for name in ("rerun_picked", "rerun_picking"):
        st.session_state.pop(name, None)
    paging.start("rerun_pick")


def _start_anew_for(ids: Sequence[int]) -> None:
    """Other events: nothing of them is picked yet."""
    if st.session_state.get("rerun_picked_of") != (of := hash(tuple(ids))):
        forget()
        st.session_state["rerun_picked_of"] = of


def _begin() -> None:
    st.session_state["rerun_picking"] = True


def _so_far() -> str:
    n = len(picked())
    return f"{many(n, 'is', 'are')} picked." if n else "None is picked yet."


def _pick(pick: Pick) -> None:
    label, tone = f"{what(pick.row.what)}, {pick.row.called}", "waiting"
    left, right = st.columns([2, 5], vertical_alignment="center")
    if pick.row.refusal:
        left.caption(f":material/block: {label}")
    else:
        key = f"pick_{pick.mark}"
        st.session_state[key] = pick.mark in picked()
        left.checkbox(label, key=key, on_change=_toggle, args=(pick,))
    with right:
        to = ", ".join(pick.recipients) or "recipients hidden from your role, or no longer kept"
        about = pick.row.refusal or f"of event {pick.event_id}"
        components.chip_line(pick.row.state.replace("_", " "), tone, to, about)


def _toggle(pick: Pick) -> None:
    if picked().pop(pick.mark, None) is None:
        picked()[pick.mark] = pick


# ── Kinds that go out once ever ───────────────────────────────────────────────────────────────────────


def _once_ever() -> None:
    """The explicit word for them, where there are such kinds."""
    kinds = sorted(session.house().settings.once_ever)
    if kinds:
        label = f"Also what is configured to go out once ever: {', '.join(what(kind) for kind in kinds)}"
        st.checkbox(label, key="rerun_once_ever")


def _even_once_ever() -> bool:
    return bool(st.session_state.get("rerun_once_ever"))


def _kinds() -> tuple[str, ...]:
    return () if _even_once_ever() else tuple(session.house().settings.once_ever)
