"""Which entries of the record are asked for, as a value and as the statements that read them.

What is asked for can be combined freely, and not every combination has an index. A page therefore looks through at
most `WINDOW` entries of the best index for it, in the order in which it shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

import sqlalchemy as sa

from ledger.audit import Entity

Outcome = Literal["done", "refused", "failed"]
Place = tuple[datetime, int]  # time and number of the entry behind which a page begins
Columns = sa.sql.base.ReadOnlyColumnCollection[str, Any]
Condition = Callable[[Columns], sa.ColumnElement[bool]]
ENTITIES: tuple[Entity, ...] = get_args(Entity)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
POLICY = 0  # stands for nobody: what configuration decided
WINDOW = 5000


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which entries are asked for; all that is given must fit. Times are from `since` on and before `until`."""

    person: int | None = None
    act: str | None = None
    entity: Entity | None = None
    entity_id: int | None = None
    outcome: Outcome | None = None
    since: datetime | None = None
    until: datetime | None = None


ALL = Chosen()


def _table(name: str, /, **columns: Any) -> sa.TableClause:
    made = (sa.column(key, kind) for key, kind in columns.items())
    return sa.table(name, *made, schema="nottwice")


_NUMBER, _TEXT, _ANY = sa.BigInteger, sa.Text, sa.types.NullType
AUDIT = _table(
    "audit",
    **dict.fromkeys(("id", "person_id", "entity_id", "entity_version"), _NUMBER),
    at=sa.DateTime(timezone=True),
    **dict.fromkeys(("role", "act", "entity", "outcome", "why", "known", "detail"), _TEXT),
    **dict.fromkeys(("state_before", "state_after"), _TEXT),
    **dict.fromkeys(("looked_at", "form_id", "transaction"), _ANY),
)
SEALS = _table("audit_seals", audit_id=_NUMBER, sequence=_NUMBER, hash=_ANY)
PEOPLE = _table("people", id=_NUMBER, name=_TEXT)
ACTIONS = _table("actions", id=_NUMBER, kind=_TEXT, about=_TEXT)
EVENTS = _table("events", id=_NUMBER, type=_TEXT, event_key=_TEXT)


def window(chosen: Chosen, after: Place | None) -> sa.Subquery:
    """The newest `WINDOW` entries behind `after` that one index finds, by the most telling thing asked for."""
    of = AUDIT.c
    found = sa.select(AUDIT).where(*(fits(of) for fits in _indexed(chosen)[:1]), *_within(chosen))
    if after is not None:
        found = found.where(sa.tuple_(of.at, of.id) < sa.tuple_(*_place(after)))
    return found.order_by(of.at.desc(), of.id.desc()).limit(WINDOW).subquery()


def page(looked: sa.Subquery, chosen: Chosen, most: int) -> sa.Select[Any]:
    """Of a window, the newest that fit everything else that was asked for."""
    rest = [*_indexed(chosen)[1:], *_unindexed(chosen)]
    fit = sa.select(looked).where(*(fits(looked.c) for fits in rest))
    return told(fit.order_by(looked.c.at.desc(), looked.c.id.desc()).limit(most).subquery())


def every(chosen: Chosen) -> sa.Select[Any]:
    """All that were asked for, the oldest first: for an export, which reads them one by one."""
    return told(_all(chosen).subquery(), newest_first=False)


def counted(chosen: Chosen, most: int) -> sa.Select[Any]:
    """How many were asked for, counted no further than `most`."""
    ids = _all(chosen).with_only_columns(AUDIT.c.id).limit(most)
    return sa.select(sa.func.count()).select_from(ids.subquery())


def told(found: sa.Subquery, *, newest_first: bool = True) -> sa.Select[Any]:
    """Entries with the names of what they speak of, and their seals."""
    of, action, event = found.c, ACTIONS.c, EVENTS.c
    about = sa.func.coalesce(
        sa.func.replace(action.kind, "_", " ") + " " + action.about,
        event.type + " " + event.event_key,
        sa.literal(""),
    )
    joined = (
        found.outerjoin(PEOPLE, PEOPLE.c.id == of.person_id)
        .outerjoin(SEALS, SEALS.c.audit_id == of.id)
        .outerjoin(ACTIONS, (of.entity == "action") & (action.id == of.entity_id))
        .outerjoin(EVENTS, (of.entity == "event") & (event.id == of.entity_id))
    )
    names = sa.func.coalesce(PEOPLE.c.name, "").label("who"), about.label("about")
    told_of = sa.select(*of, *names, SEALS.c.sequence, SEALS.c.hash).select_from(joined)
    return told_of.order_by(*((of.at.desc(), of.id.desc()) if newest_first else (of.at, of.id)))


def _indexed(chosen: Chosen) -> list[Condition]:
    """The conditions that an index finds in the order of time, the one that tells most first."""
    return _given(
        (chosen.entity_id, lambda of: (of.entity == chosen.entity) & (of.entity_id == chosen.entity_id)),
        (chosen.outcome if chosen.outcome != "done" else None, lambda of: of.outcome == chosen.outcome),
        (chosen.person, lambda of: of.person_id == (chosen.person or None)),
        (chosen.act, lambda of: of.act == chosen.act),
    )


def _unindexed(chosen: Chosen) -> list[Condition]:
    """Those that most entries fit, or few ask for."""
    return _given(
        (chosen.entity if chosen.entity_id is None else None, lambda of: of.entity == chosen.entity),
        (chosen.outcome if chosen.outcome == "done" else None, lambda of: of.outcome == "done"),
    )


def _given(*conditions: tuple[object, Condition]) -> list[Condition]:
    return [condition for given, condition in conditions if given is not None]


def _within(chosen: Chosen) -> list[sa.ColumnElement[bool]]:
    of = AUDIT.c
    since = [] if chosen.since is None else [of.at >= chosen.since]
    return since if chosen.until is None else [*since, of.at < chosen.until]


def _all(chosen: Chosen) -> sa.Select[Any]:
    fit = [*_indexed(chosen), *_unindexed(chosen)]
    return sa.select(AUDIT).where(*(fits(AUDIT.c) for fits in fit), *_within(chosen))


def _place(after: Place) -> tuple[sa.ColumnElement[datetime], sa.ColumnElement[int]]:
    return sa.literal(after[0], sa.DateTime(timezone=True)), sa.literal(after[1], _NUMBER)
