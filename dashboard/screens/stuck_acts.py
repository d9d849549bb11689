"""What a person does with what was picked: try again, set aside, hand back. Only what fits is offered.

Each row is an act of its own: its version is checked, its audit row written, and its end told. What changed meanwhile is
left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import streamlit as st

from dashboard import components, session
from dashboard.screens import stuck_read, stuck_words
from dashboard.screens.stuck_read import Kept
from dashboard.words import harmless, many
from ledger import by_hand, by_two, decisions, recovery, retrying
from ledger.database import Transaction
from ledger.deciding import DECIDERS
from ledger.records import Act, Role, Seen
from ledger.retrying import SetAside
from ledger.views.stuck import Row, StuckSend

Deed = Literal["again", "aside", "back"]
DEEDS: tuple[Deed, ...] = ("again", "aside", "back")
AUDITED: dict[Deed, str] = {"again": "try again", "aside": by_hand.SET_ASIDE, "back": by_hand.HAND_BACK}
FEW = 25  # rows that are told one by one, and done without showing progress
READ_ONLY = "You can read this. Engineer or admin tries events again, sets them aside or hands them back."
CONSEQUENCE: dict[Deed, str] = {
    "again": "The handler runs again. E-mails that are out are not sent again: each has its key.",
    "aside": "Nobody works on it until a person says so. What waits behind it in its order goes on within a minute.",
    "back": "It leaves its worker's hands and is due at once. That worker can complete nothing of it any more.",
}
CONSEQUENCE_OF_SENDS = (
    "A send goes out in its stored content, with its own key; no try of it can have gone out before."
)
ICONS: dict[Deed, str] = {
    "again": ":material/replay:",
    "aside": ":material/inventory_2:",
    "back": ":material/undo:",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one row."""

    what: str
    result: session.Result


# ── What fits ─────────────────────────────────────────────────────────────────────────────────────────


def why_not(row: Row, deed: Deed, role: Role) -> str:
    """Why this cannot be done with this row by this role; "": it can."""
    if isinstance(row, StuckSend):
        return _why_not_send(row, deed, role)
    if role not in recovery.REQUEUERS:
        return "Engineer or admin does this with events."
    if deed == "again":
        return "" if row.state == "failed" else "It is not set aside."
    if deed == "back":
        return "" if row.state == "processing" else "No worker has it in hand."
    if row.state == "failed":
        return "It is set aside already."
    return "" if row.mode == "first" else "A person asked for it to be worked again: cancel that run instead."


def _why_not_send(row: StuckSend, deed: Deed, role: Role) -> str:
    if deed != "again" or row.state != "failed":
        return "It is a send: what can be decided about it is in Review."
    return "" if role in DECIDERS else "Support or admin decides sends."


def may_act(role: Role) -> bool:
    return role in recovery.REQUEUERS | DECIDERS


# ── The bar ───────────────────────────────────────────────────────────────────────────────────────────


def bar(now: Kept) -> None:
    """Under the table: what can be done with the picked rows, and with which of them."""
    role, rows = session.chosen().role, stuck_read.picked(now)
    what_became()
    if not may_act(role):
        st.caption(READ_ONLY)
        return
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


def _asked_about(rows: Sequence[Row], deed: Deed, role: Role) -> Sequence[Row | SetAside]:
    every: list[SetAside] = st.session_state.get("stuck_all") or []
    return every or [row for row in rows if not why_not(row, deed, role)]


def label(deed: Deed, n: int) -> str:
    """`Try 2 again`, `Try it again`."""
    them = "it" if n == 1 else f"{n}"
    return {"again": f"Try {them} again", "aside": f"Set {them} aside", "back": f"Hand {them} back"}[deed]


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
            st.caption(f"{len(rows) - len(reasons)} of {len(rows)} can be {_done_words(deed)}.")
            for row, reason in reasons:
                components.told(reason, stuck_words.thing(row))
    if all(why_not(row, deed, role) for row in rows for deed in DEEDS):
        st.caption("Nothing can be done here with what is picked.")


def _done_words(deed: Deed) -> str:
    return {"again": "tried again", "aside": "set aside", "back": "handed back"}[deed]


# ── Asked once more ───────────────────────────────────────────────────────────────────────────────────


def _let_go() -> None:
    st.session_state.pop("stuck_asking", None)
    st.session_state.pop("stuck_all", None)


def _once_more(deed: Deed, rows: Sequence[Row | SetAside]) -> None:
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


def second_because(rows: Sequence[Row | SetAside]) -> str:
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


def carry_out(deed: Deed, rows: Sequence[Row | SetAside], why: str) -> None:
    """One act a row, each in a transaction of its own. What became of each is told by the next run."""
    one_by_one(deed, [(_named(row), partial(_act, deed, row, why)) for row in rows])


def one_by_one(deed: Deed, acts: Sequence[tuple[str, Callable[[], session.Result]]]) -> None:
    """With its progress: a tab that is closed meanwhile stops before the next one, and what was done stays done."""
    place, done = st.empty(), []
    for n, (name, act) in enumerate(acts, 1):
        done.append(Told(name, act()))
        if len(acts) > FEW:
            _progress(place, n, len(acts))
    st.session_state["stuck_told"] = (deed, done)
    stuck_read.again()


def _progress(place: st.delta_generator.DeltaGenerator, n: int, of: int) -> None:
    place.progress(n / of, f"{n:,} of {of:,}")


def ask_second(deed: Deed, rows: Sequence[Row | SetAside], why: str) -> None:
    """The list as it was seen, for somebody else to agree to."""
    pairs = [(row.id, row.version) for row in rows if not isinstance(row, StuckSend)]
    expires_s = session.house().settings.console.request_expires_s

    def ask(tx: Transaction, act: Act) -> int:
        return by_two.ask(tx, AUDITED[deed], pairs, act, expires_s=expires_s)

    form = session.form_id("stuck request", deed, tuple(pairs), stuck_read.number())
    what = f"asked a second person: {AUDITED[deed]}"
    result = session.act(what, 0, ask, form=form, why=why, entity="request")
    st.session_state["stuck_asked"] = ("asked", result)
    stuck_read.again()


def _named(row: Row | SetAside) -> str:
    return f"event {row.id}" if isinstance(row, SetAside) else stuck_words.thing(row)


def _act(deed: Deed, row: Row | SetAside, why: str) -> session.Result:
    kind = "send" if isinstance(row, StuckSend) else "event"
    form = session.form_id("stuck", deed, kind, row.id, row.version)
    return session.act(AUDITED[deed], row.id, _by_ledger(deed, row), form=form, why=why, entity=_entity(row))


def _entity(row: Row | SetAside) -> Any:
    return "action" if isinstance(row, StuckSend) else "event"


def _by_ledger(deed: Deed, row: Row | SetAside) -> Callable[[Transaction, Act], object]:
    if isinstance(row, StuckSend):
        seen, wait_s = Seen(row.version, row.content_digest), session.house().settings.worker.decided_wait_s
        return lambda tx, act: decisions.requeue(tx, row.id, seen, act, wait_s=wait_s)
    does = by_two.DEEDS[AUDITED[deed]]
    return lambda tx, act: does(tx, row.id, row.version, act)


# ── What became of it ─────────────────────────────────────────────────────────────────────────────────


def what_became() -> None:
    """The summary of the last act, and of each row that was left alone why."""
    if asked := st.session_state.pop("stuck_asked", None):
        _asked(*asked)
    deed, done = st.session_state.get("stuck_told") or ("again", [])
    if not done:
        return
    left = [one for one in done if not isinstance(one.result, session.Done)]
    words = f"{many(len(done) - len(left), 'piece of work was', 'pieces of work were')} {_done_words(deed)}."
    if not left:
        st.success(f"{words} Each has its entry in the audit.", icon=":material/check_circle:")
        return
    st.info(f"**{words} {len(left)} of {len(done)} were left alone.**", icon=":material/update:")
    for one in left[:FEW]:
        components.told(components.in_short(one.result), one.what)
    if len(left) > FEW:
        st.caption(f"And {len(left) - FEW:,} more. The audit has each.")


ASKED = {
    "asked": "Asked. Nothing has been done yet: somebody else must agree.",
    "declined": "The request has ended. Nothing was done.",
}


def _asked(word: str, result: session.Result) -> None:
    """What became of a request, by this person's word."""
    if isinstance(result, session.Done):
        st.success(ASKED[word], icon=":material/group:")
    else:
        components.outcome(result)
