"""The tables of `ledger/states.py` and the CHECKs of `sql/` are one truth, and the event functions keep to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum

import pytest
from sqlalchemy.exc import IntegrityError

from ledger import records, work
from ledger.records import reprocess as records_reprocess
from ledger.states import (
    ACTION_TRANSITIONS,
    EVENT_TRANSITIONS,
    FINAL_ACTIONS,
    ActionState,
    EventState,
    Transition,
)
from tests.fix_events import Ledger, worker

W = worker()


def check(book: Ledger, table: str, name: str) -> str:
    return str(
        book.value(
            """SELECT pg_get_constraintdef(oid) FROM pg_constraint
               WHERE conrelid = CAST(:t AS regclass) AND conname = :name""",
            t=f"nottwice.{table}",
            name=name,
        )
    )


def words(definition: str) -> set[str]:
    return set(re.findall(r"'([a-z_]+)'::text", definition))


@pytest.mark.parametrize(
    ("table", "constraint", "known"),
    [
        ("events", "the_event_state_is_known", EventState),
        ("actions", "the_action_state_is_known", ActionState),
        ("events", "the_mode_is_known", records.Mode),
        ("actions", "the_policy_is_known", records.Policy),
        ("action_attempts", "the_outcome_is_known", records.OutcomeKind),
        ("evidence", "evidence_points_somewhere", records.PointsTo),
        ("reprocess_runs", "the_run_mode_is_known", records_reprocess.RunMode),
        ("reprocess_runs", "the_run_state_is_known", records_reprocess.RunState),
        ("reprocess_rows", "the_row_state_is_known", records_reprocess.RowState),
    ],
)
def test_the_same_words_in_both(book: Ledger, table: str, constraint: str, known: type[StrEnum]) -> None:
    assert words(check(book, table, constraint)) == {member.value for member in known}


def test_final_actions_are_the_settled_ones(book: Ledger) -> None:
    assert words(check(book, "actions", "final_means_settled")) == {state.value for state in FINAL_ACTIONS}


@pytest.mark.parametrize(
    ("states", "table"),
    [(EventState, EVENT_TRANSITIONS), (ActionState, ACTION_TRANSITIONS)],
    ids=["event", "action"],
)
def test_every_state_is_reached_and_left_or_final(
    states: type[StrEnum], table: tuple[Transition, ...]
) -> None:
    known = {state.value for state in states}
    first = {"pending", "proposed"}
    sources, targets = {step.source for step in table}, {step.target for step in table}
    assert sources | targets == known
    assert known - targets - first == set()
    assert known - sources <= {state.value for state in FINAL_ACTIONS}
    assert len(set(table)) == len(table)


# What makes a row of a state whole, and what no row of that state may have.
WHOLE = {
    "pending": "due_at = now()",
    "processing": "claim_token = gen_random_uuid(), claimed_by = gen_random_uuid(), claimed_at = now(), lease_until = now()",
    "completed": "ended_at = now(), ending = 'done'",
    "failed": "ended_at = now()",
}
NOTHING = ", ".join(
    f"{name} = NULL"
    for name in ("due_at", "claim_token", "claimed_by", "claimed_at", "lease_until", "ended_at", "ending")
)


def fits(book: Ledger, state: str, columns: str) -> bool:
    """Whether the database lets a row be in this state with exactly these columns set."""
    wanted = dict(part.split(" = ") for part in f"{NOTHING}, {columns}".split(", ") if part)
    assignments = ", ".join(f"{name} = {value}" for name, value in wanted.items())
    try:
        book.run(f"UPDATE nottwice.events SET state = '{state}', {assignments}")
    except IntegrityError:
        return False
    return True


@pytest.mark.parametrize("state", WHOLE)
def test_an_events_columns_belong_to_its_state(book: Ledger, state: str) -> None:
    """Its own set of columns is taken; a part of it, or what belongs to another state, is refused."""
    book.stored("a")
    parts = WHOLE[state].split(", ")
    for missing in parts:
        assert not fits(book, state, ", ".join(part for part in parts if part != missing))
    for other, columns in WHOLE.items():
        assert fits(book, state, columns) == (other == state)
    assert fits(book, state, WHOLE[state])
    book.run("UPDATE nottwice.events SET lease_until = now() + interval '1 h' WHERE state = 'processing'")


def claimed(book: Ledger) -> records.ClaimedEvent:
    """The one event of a test, under a claim."""
    return book.claim_one(W)


def ending(act: Callable[[Ledger, records.ClaimedEvent], object]) -> Callable[[Ledger], object]:
    return lambda book: act(book, claimed(book))


def rescued(book: Ledger, *, last: bool) -> None:
    one = claimed(book)
    book.expire(one.event.id)
    if last:
        book.run("UPDATE nottwice.events SET attempts = attempts_max")
    book.rescue()


DEEDS: dict[str, Callable[[Ledger], object]] = {
    "claim": claimed,
    "complete": ending(lambda book, one: book.complete(one)),
    "retry_later": ending(
        lambda book, one: book.database.run(lambda tx: work.retry_later(tx, one.lease, delay_s=0, error="x"))
    ),
    "hand_back": ending(lambda book, one: book.database.run(lambda tx: work.hand_back(tx, one.lease))),
    "set_aside": ending(
        lambda book, one: book.database.run(lambda tx: work.set_aside(tx, one.lease, error="x"))
    ),
    "rescue": lambda book: rescued(book, last=False),
    "rescue at the last attempt": lambda book: rescued(book, last=True),
}


def steps(book: Ledger, deed: str) -> Iterator[tuple[str, str]]:
    """Every change of state the database sees while a deed is done."""
    book.run("CREATE TABLE public.steps (n bigserial, source text, target text)")
    book.run(
        """CREATE FUNCTION public.step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO public.steps (source, target) VALUES (OLD.state, NEW.state); RETURN NULL; END $$"""
    )
    book.run(
        """CREATE TRIGGER step AFTER UPDATE ON nottwice.events FOR EACH ROW
           WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION public.step()"""
    )
    book.stored("a")
    DEEDS[deed](book)
    yield from book.rows("SELECT source, target FROM public.steps ORDER BY n")  # type: ignore[misc]


@pytest.mark.parametrize("deed", DEEDS)
def test_each_function_makes_its_own_steps_and_raises_the_version(book: Ledger, deed: str) -> None:
    made = list(steps(book, deed))
    by = deed.split()[0]
    allowed = {(step.source, step.target) for step in EVENT_TRANSITIONS if step.by == by}
    assert made[-1] in allowed
    assert made[:-1] == ([("pending", "processing")] if by != "claim" else [])
    assert book.value("SELECT version FROM nottwice.events") == 1 + len(made)


def test_every_transition_of_the_table_was_walked() -> None:
    """`requeue`, `put_aside` and `recompute` have their own tests, under a person's role and in a run."""
    walked = {deed.split()[0] for deed in DEEDS}
    assert {step.by for step in EVENT_TRANSITIONS} - walked == {"requeue", "put_aside", "recompute"}
