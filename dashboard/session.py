"""Who is here, what the house looks like, and the one door through which everything is written.

`act()` runs a ledger function as the person's own database role and turns every way in which it can end into a
value, which `components.outcome()` says in words. Nothing else in the console writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID, uuid4, uuid5

import streamlit as st

from dashboard.address import without_control
from dashboard.house import Glance, Visit
from dashboard.identity import (
    account,
    admitted,
    choose,
    chosen,
    door,
    house,
    may_decide,
    me,
    number,
    people_here,
    sign_out_url,
    signs_in_here,
)
from ledger import audit, check, views
from ledger.accounts import resuming
from ledger.database import Transaction
from ledger.decisions.deciding import DECIDERS, must_be_complete
from ledger.errors import AlreadyDecided, Declined, Incomplete, NotAdmitted, Stale, Unavailable
from ledger.evidence import rests
from ledger.figures import samples
from ledger.kept import reveals
from ledger.records import Act, Decision
from ledger.verdict import Finding
from ledger.views import events as views_events
from ledger.views import review as views_review

__all__ = [  # of identity
    "account",
    "admitted",
    "choose",
    "chosen",
    "door",
    "house",
    "may_decide",
    "me",
    "number",
    "people_here",
    "sign_out_url",
    "signs_in_here",
]

T = TypeVar("T")
LOG = logging.getLogger("nottwice.console")
FORMS = UUID("6f1d1c52-6a0e-4d57-9a0f-7c1b8a4f2f60")  # the name space of one-time ids
REASON_CHARACTERS_MAX = 1000  # what the audit keeps of a person's words
REVEALERS, WHY_FIRST = reveals.REVEALERS, reveals.REVEAL_WITH_WHY


# ── Results of acts ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Done:
    """Carried out. `value` is what the ledger function returned."""

    value: object


@dataclass(frozen=True, slots=True)
class Lost:
    """Somebody was first."""

    who: str
    what: str
    at: datetime
    tried_at: datetime


@dataclass(frozen=True, slots=True)
class Twice:
    """The same person did the same before: a double click, a reload, a second tab."""

    what: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Changed:
    """The row is not the one the person looked at."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The ledger says why, in its own words."""

    message: str


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Something failed. Whether anything was done is said by the page as it is read next."""

    sentence: str


Result = Done | Lost | Twice | Changed | Refused | TryAgain


# ── What there is ─────────────────────────────────────────────────────────────────────────────────────


def figures() -> Glance[views.Snapshot]:
    """The figures that everybody shares, at most `refresh_s` old while the database answers."""
    return house().snapshot.glance()


def charts() -> Glance[views.Hour]:
    """What the charts draw, a few seconds older."""
    return house().hour.glance()


def leases() -> Glance[tuple[views.LeaseAge, ...]]:
    """The work in hand that was claimed or renewed longest ago, as old as the charts."""
    return house().leases.glance()


def health() -> Glance[check.Health]:
    """What `nottwice check` says, a few seconds old, and a line for everything that it looks at."""
    return house().health.glance()


def month() -> Glance[tuple[samples.Sample, ...]]:
    """How large the ledger was, hour by hour."""
    return house().month.glance()


def may_run_the_house() -> bool:
    return chosen().role in resuming.WHO


def kind_of(provider: str) -> str:
    """Of which kind a provider of the configuration is; one that is no longer in it counts by its name."""
    configured = house().settings.providers.get(provider)
    return configured.kind if configured else provider


def periods_of() -> str:
    """Of when the periods are by which a page says how long something is kept: workers may have read others since."""
    at = house().configured_at
    return f"By the periods in the configuration as this console read it, {at.day} {at:%b %H:%M} UTC."


def refresh_s() -> float:
    return house().settings.console.refresh_s


def read(query: Callable[[Transaction], T]) -> T:
    """Read as the person's own role, never from a cache. Raises Unavailable."""
    return house().database.run(query, role=chosen().role)


def read_soon(query: Callable[[Transaction], T]) -> T:
    """Like `read`, but stopped when it takes longer than people wait. Raises TooSlow, Unavailable."""

    def bounded(tx: Transaction) -> T:
        with views_events.within(tx):
            return query(tx)

    return read(bounded)


# ── The door ──────────────────────────────────────────────────────────────────────────────────────────


def form_id(*parts: object) -> UUID:
    """The one-time id of a decision: the same person, the same choice, the same version of the same row.

    Derived, not drawn, so that a reload or a second tab is the same form as the first click.
    """
    return uuid5(FORMS, "\x1f".join(str(part) for part in (me().id, *parts)))


def too_long(why: str) -> str:
    """What a person is told whose words the audit cannot keep whole; empty when it can."""
    n = len(without_control(why).strip())
    if n <= REASON_CHARACTERS_MAX:
        return ""
    return (
        f"Your words have {n:,} characters; the audit keeps {REASON_CHARACTERS_MAX:,}. Please shorten them."
    )


def incomplete(
    why: str, looked_at: tuple[str, ...], found: Finding | None = None, decision: Decision | None = None
) -> str:
    """What a person must still say before this can be decided, by the ledger's own rule, or say in fewer words; empty: nothing."""
    if long := too_long(why):
        return f"Nothing was done. {long}"
    try:
        must_be_complete(Act(me(), FORMS, why, looked_at), found, decision)
    except Incomplete as error:
        return str(error)
    return ""


def act(
    what: str,
    entity_id: int,
    do: Callable[[Transaction, Act], T],
    *,
    form: UUID,
    why: str = "",
    looked_at: tuple[str, ...] = (),
    entity: audit.Entity = "action",
) -> Result:
    """Carry out one act of this person about one row, or say why not. Never raises for what the ledger says.

    A refused or failed try is noted in the audit in a transaction of its own; a twin of an act that was done is
    none. Every viewer's figures are counted anew afterwards.
    """
    if long := too_long(why):
        return Refused(long)
    try:
        given = Act(me(), form, without_control(why).strip(), looked_at)
    except NotAdmitted as error:
        return Refused(f"{error} Nothing was done.")
    try:
        return Done(house().database.run(lambda tx: do(tx, given), role=given.person.role))
    except AlreadyDecided as error:
        if error.same_form:
            return Twice(error.what, error.at)
        tried_at = _note(audit.refused, given, what, entity, entity_id, str(error))
        return Lost(error.who, error.what, error.at, tried_at or error.at)
    except Declined as error:
        _note(audit.refused, given, what, entity, entity_id, str(error))
        return Changed() if isinstance(error, Stale) else Refused(str(error))
    except Unavailable:
        return TryAgain(
            "The database cannot be reached. Whether this was carried out is shown when it is back."
        )
    except Exception as error:  # whatever it was, the person is told and the audit notes it
        LOG.exception("an act failed")
        _note(audit.failed, given, what, entity, entity_id, type(error).__name__)
        return TryAgain(
            "This could not be written down, so nothing was done. Try again, or tell an administrator."
        )
    finally:
        house().count_anew()


def _note(
    note: Callable[..., int], given: Act, what: str, entity: audit.Entity, entity_id: int, reason: str
) -> datetime | None:
    """Into the audit, in a transaction of its own. What cannot be noted is logged: the act was not done anyway."""

    def noted(tx: Transaction) -> datetime:
        sees = entity == "action" and given.person.role in DECIDERS
        known = rests.known_now(tx, entity_id) if sees else ""
        note(tx, given, what, entity, entity_id, reason, known)
        return views_review.now(tx)

    try:
        return house().database.run(noted, role=given.person.role)
    except Exception:
        LOG.exception("a try could not be noted in the audit")
        return None


def reveal(entity_id: int, why: str, entity: reveals.Readable = "action") -> Result:
    """The stored content of one send, or the bytes that were received. The audit has it, committed, before."""
    return _reveal(why, lambda act: reveals.reveal(house().database, entity, entity_id, act))


def reveal_both(conflict_id: int, event_id: int, why: str) -> Result:
    """The first content of an event and the other one that came."""
    return _reveal(why, lambda act: reveals.reveal_both(house().database, conflict_id, event_id, act))


def _reveal(why: str, show: Callable[[Act], object]) -> Result:
    if long := too_long(why):
        return Refused(f"Nothing was shown. {long}")
    try:
        return Done(show(Act(me(), uuid4(), without_control(why).strip())))
    except (Declined, NotAdmitted) as error:
        return Refused(str(error))
    except Unavailable:
        return TryAgain("The database cannot be reached. Nothing was shown.")
    except Exception:
        LOG.exception("a text could not be revealed")
        return TryAgain("The audit could not note this, so nothing was shown.")


def beside(action_id: int, *, choosing: bool, version: int) -> list[Visit]:
    """Say that this session has a send open, drawn as of this version; who else has."""
    who = me()
    return house().visit(action_id, _mark(), who.name, who.id, choosing=choosing, version=version)


def left_off(action_id: int, version: int) -> datetime | None:
    """Since when this person was choosing about it in a session before this one, or beside it."""
    return house().left_off(action_id, _mark(), me().id, version)


def _mark() -> str:
    """Of this session, among all that this console serves."""
    mark: str = st.session_state.setdefault("mark", uuid4().hex)
    return mark
