"""Acts on stuck work carried out one by one, each in a transaction of its own, and what became of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from dashboard import components, session
from dashboard.screens import stuck_read, stuck_words
from dashboard.screens.stuck_fits import AUDITED, Deed, done_words
from dashboard.words import many
from ledger import decisions
from ledger.cli.retrying import Chosen
from ledger.database import Transaction
from ledger.events import by_two
from ledger.records import Act, Seen
from ledger.views.stuck_rows import Row, StuckSend

FEW = 25  # rows that are told one by one, and done without showing progress


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one row."""

    what: str
    result: session.Result


def carry_out(deed: Deed, rows: Sequence[Row | Chosen], why: str) -> None:
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


def ask_second(deed: Deed, rows: Sequence[Row | Chosen], why: str) -> None:
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


def _named(row: Row | Chosen) -> str:
    return f"event {row.id}" if isinstance(row, Chosen) else stuck_words.thing(row)


def _act(deed: Deed, row: Row | Chosen, why: str) -> session.Result:
    kind = "send" if isinstance(row, StuckSend) else "event"
    form = session.form_id("stuck", deed, kind, row.id, row.version)
    return session.act(AUDITED[deed], row.id, _by_ledger(deed, row), form=form, why=why, entity=_entity(row))


def _entity(row: Row | Chosen) -> Any:
    return "action" if isinstance(row, StuckSend) else "event"


def _by_ledger(deed: Deed, row: Row | Chosen) -> Callable[[Transaction, Act], object]:
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
    words = f"{many(len(done) - len(left), 'piece of work was', 'pieces of work were')} {done_words(deed)}."
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
