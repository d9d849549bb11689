"""What a person does with what was picked: try again, set aside, hand back. Only what fits is offered.

Each row is an act of its own: its version is checked, its audit row written, and its end told. What changed meanwhile is
left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import components, session
from dashboard.screens import stuck_read, stuck_words
from dashboard.screens.stuck_done import ask_second, carry_out, what_became
from dashboard.screens.stuck_fits import (
    CONSEQUENCE,
    CONSEQUENCE_OF_SENDS,
    DEEDS,
    ICONS,
    Deed,
    done_words,
    label,
    may_act,
    why_not,
)
from dashboard.screens.stuck_read import Kept
from dashboard.words import harmless
from ledger.cli import retrying
from ledger.cli.retrying import Chosen
from ledger.events import by_two, recovery
from ledger.records import Role
from ledger.views.stuck_rows import Row, StuckSend

# ── The bar ───────────────────────────────────────────────────────────────────────────────────────────


def bar(now: Kept) -> None:
    """Under the table: what can be done with the picked rows, and with which of them."""
    role, rows = session.chosen().role, stuck_read.picked(now)
    what_became()
    if not may_act(role):
        return  # what is said above the rows
    if rows:
        with st.container(horizontal=True, vertical_alignment="center"):
            _buttons(rows, role)
        _mixed(rows, role)
    else:
        _offer_all(now, role)
    asking: Deed | None = st.session_state.get("stuck_asking")
    fit = _asked_about(rows, asking, role) if asking else []
    if asking and fit:
        title = f"{label(asking, len(fit))}?"
        st.dialog(title, on_dismiss=_let_go)(_once_more)(asking, fit)


def _offer_all(now: Kept, role: Role) -> None:
    """Everything that fits the filter, as it is listed at the press; more than a page, or there is nothing to offer."""
    n = now.sizes.aside - now.sizes.given_up
    if now.asked[0] != "aside" or role not in recovery.REQUEUERS or n <= len(now.page.rows):
        return
    most = min(n, by_two.LISTED_MAX)
    if st.button(all_label(n, most), icon=ICONS["again"], key="stuck_do_all", disabled=stuck_read.gone()):
        wanted = retrying.Filter(source=now.asked[1].source, type=now.asked[1].type)
        st.session_state["stuck_all"] = retrying.listed(session.house().database, wanted)[:most]
        st.session_state["stuck_asking"] = "again"
        st.rerun()


def all_label(n: int, most: int) -> str:
    return f"Try all {n:,} again" if n <= most else f"Try the first {most:,} again"


def _asked_about(rows: Sequence[Row], deed: Deed, role: Role) -> Sequence[Row | Chosen]:
    every: list[Chosen] = st.session_state.get("stuck_all") or []
    return every or [row for row in rows if not why_not(row, deed, role)]


def _buttons(rows: Sequence[Row], role: Role) -> None:
    for deed in DEEDS:
        n = sum(not why_not(row, deed, role) for row in rows)
        if n and st.button(
            label(deed, n), icon=ICONS[deed], key=f"stuck_do_{deed}", disabled=stuck_read.gone()
        ):
            st.session_state["stuck_asking"] = deed
            st.rerun()


def _mixed(rows: Sequence[Row], role: Role) -> None:
    """For each act that fits some of them only, which it does not fit, and why."""
    for deed in DEEDS:
        reasons = [(row, reason) for row in rows if (reason := why_not(row, deed, role))]
        if 0 < len(reasons) < len(rows):
            st.caption(f"{len(rows) - len(reasons)} of {len(rows)} can be {done_words(deed)}.")
            for row, reason in reasons:
                components.told(reason, stuck_words.thing(row))
    if all(why_not(row, deed, role) for row in rows for deed in DEEDS):
        st.caption("Nothing can be done here with what is picked.")


# ── Asked once more ───────────────────────────────────────────────────────────────────────────────────


def _let_go() -> None:
    st.session_state.pop("stuck_asking", None)
    st.session_state.pop("stuck_all", None)


def _once_more(deed: Deed, rows: Sequence[Row | Chosen]) -> None:
    """What will happen, why, and the button that names it; above the number of one person, the request for a second."""
    st.markdown(CONSEQUENCE[deed])
    if any(isinstance(row, StuckSend) for row in rows):
        st.markdown(CONSEQUENCE_OF_SENDS)
    because = second_because(rows)
    if because:
        st.info(because, icon=":material/group:")
    why, pressed = press_with_reason(deed, len(rows), "bar", asks=bool(because))
    if st.button("Go back", width="stretch", key="stuck_go_back"):
        _let_go()
        st.rerun()
    if pressed:
        _let_go()
        ask_second(deed, rows, why) if because else carry_out(deed, rows, why)
        st.rerun()


def second_because(rows: Sequence[Row | Chosen]) -> str:
    """Why these take two people; "" where this person may do it alone. Sends have rules of their own."""
    n, who = sum(not isinstance(row, StuckSend) for row in rows), session.me()
    return harmless(session.read(lambda tx: by_two.second_because(tx, who, n))) if n else ""


def press_with_reason(deed: Deed, n: int, where: str, *, asks: bool = False) -> tuple[str, bool]:
    """The reason, and whether the button that names the act was pressed with it."""
    with st.form(f"stuck_form_{where}_{deed}", border=False, enter_to_submit=False):
        why = components.reason("Why? The audit keeps your words.", key=f"stuck_why_{where}_{deed}")
        pressed = st.form_submit_button(
            "Ask a second person" if asks else label(deed, n),
            type="primary",
            width="stretch",
            icon=ICONS[deed],
            disabled=stuck_read.gone(),
        )
    if pressed and not why.strip():
        st.warning("Nothing was done. Please say why.", icon=":material/edit:")
        return why, False
    return why, pressed
