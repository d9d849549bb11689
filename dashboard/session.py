"""Who acts, on which database, and `act()`: the only door for writes.

Screens ask `read()` and `act()`; neither lets them name a role: it is the person's. What the ledger refuses is
noted in the audit in a transaction of its own, and comes back as a value that the screen puts into words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar
from uuid import UUID, uuid4

import streamlit as st

from ledger import audit, people
from ledger.database import Database, Transaction
from ledger.errors import (
    AlreadyDecided,
    Declined,
    Incomplete,
    LedgerError,
    Misconfigured,
    NotAllowed,
    NotNow,
    Stale,
    Unavailable,
)
from ledger.records import Act, Person, Role
from ledger.settings import Settings, load

T = TypeVar("T")
Kind = Literal["done", "lost", "twice", "stale", "not_now", "not_allowed", "incomplete", "failed"]
HOME = {Role.SUPPORT: "review", Role.ADMIN: "review"}  # everybody else begins at the overview


@dataclass(frozen=True, slots=True)
class Result:
    """What became of an act. `words` are ours, whole sentences."""

    kind: Kind
    words: str = ""
    value: Any = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@st.cache_resource
def settings() -> Settings:
    return load()


@st.cache_resource
def database() -> Database:
    return settings().open_database("console", pool_size=8)


def person() -> Person:
    """The person of this session. On loopback without sign-in: one of the configured people."""
    known = settings().console.people
    if not known:
        raise Misconfigured("Nobody is named in [console] people, so nobody can act here. Add yourself.")
    chosen = known[st.session_state.get("person", 0) % len(known)]
    return _row(chosen.email or chosen.name, chosen.name, chosen.email, chosen.role)


@st.cache_data(ttl=300)
def _row(subject: str, name: str, email: str, role: str) -> Person:
    return database().run(lambda tx: people.person(tx, "local", subject, name, email, Role(role)))


def read(body: Callable[[Transaction], T]) -> T:
    """Run a read under the person's own database role. Raises Unavailable."""
    with database().transaction(person().role) as tx:
        return body(tx)


def form_id(name: str) -> UUID:
    """The one-time id of a form as long as it is on screen; `renew_form` after its act."""
    return st.session_state.setdefault(f"form:{name}", uuid4())  # type: ignore[no-any-return]


def renew_form(name: str) -> None:
    st.session_state.pop(f"form:{name}", None)


def act(
    what: str,
    action_id: int,
    body: Callable[[Transaction, Act], T],
    *,
    form: str,
    reason: str = "",
    looked_at: tuple[str, ...] = (),
) -> Result:
    """Carry out a person's act: one transaction under their role, or nothing and the reason why."""
    who = person()
    doing = Act(who, form_id(form), reason.strip(), looked_at)
    try:
        value = database().run(lambda tx: body(tx, doing), role=who.role)
    except Incomplete as error:
        return Result("incomplete", str(error))
    except Declined as error:
        why = str(error)
        _note(lambda tx: audit.refused(tx, doing, what, "action", action_id, why), who.role)
        return Result(_kind(error), why)
    except Unavailable as error:
        return Result("failed", f"{error} Nothing was decided.")
    except Exception as error:  # noqa: BLE001 - whatever it was, the person must know that nothing happened
        name = type(error).__name__
        _note(lambda tx: audit.failed(tx, doing, what, "action", action_id, name), who.role)
        return Result("failed", "The ledger could not carry this out. Nothing was changed; try again.")
    renew_form(form)
    return Result("done", value=value)


def _kind(error: Declined) -> Kind:
    if isinstance(error, AlreadyDecided):
        return "twice" if error.same_form else "lost"
    kinds: dict[type[Declined], Kind] = {Stale: "stale", NotNow: "not_now", NotAllowed: "not_allowed"}
    return kinds.get(type(error), "failed")


def _note(body: Callable[[Transaction], int], role: Role) -> None:
    """A refusal that cannot be noted must not hide that nothing was done."""
    with contextlib.suppress(LedgerError, Exception):
        database().run(body, role=role)


def reveal(action_id: int, form: str) -> bytes:
    """The stored content; the audit has it before it is shown."""
    return audit.reveal_action(database(), action_id, Act(person(), form_id(form)))
