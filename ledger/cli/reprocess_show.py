"""One run on the command line: its rows with their results, what was found, and its progress until it is over."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from ledger.awake import as_viewer
from ledger.cli.reprocess_words import run_json, run_line
from ledger.database import Database, Transaction
from ledger.records import Person, Role
from ledger.records.reprocess import Found, RowState, RunMode, RunState
from ledger.terminal import plain, progress
from ledger.views import reprocess as views_reprocess
from ledger.views.reprocess import Finding, Row, Run

LOOK_S = 0.5
T = TypeVar("T", Row, Finding)
FOUND = {Found.NEW: "would be new", Found.DIFFERS: "would differ from action {action}"}


def seen(database: Database, run_id: int) -> Run | None:
    """The run as it is now."""

    def read(tx: Transaction) -> Run | None:
        as_viewer(tx)
        return views_reprocess.run(tx, run_id)

    return database.run(read)


def watched(database: Database, run_id: int) -> Run | None:
    """The run when it is over; at once when it waits for a person, who may come at any time."""
    with progress(f"run {run_id}") as advance:
        while (run := seen(database, run_id)) is not None:
            advance(run.over, run.rows)
            if run.state is not RunState.RUNNING and not run.working:
                return run
            time.sleep(LOOK_S)
    return None


def lines(database: Database, run: Run, person: Person | None, *, as_json: bool) -> Iterator[str]:
    """The run, its rows, what was found; recipients where this person may see them."""
    role = person.role if person else Role.VIEWER
    yield run_json(run) if as_json else run_line(run)
    if not as_json and (void := _void(database, run, role)):
        yield f"Nobody can agree to it any more: {void}"
    for row in _pages(database, role, run.id, views_reprocess.rows):
        yield _row_json(row) if as_json else _row(row, run)
    for found in _pages(database, role, run.id, views_reprocess.findings):
        yield _finding_json(found) if as_json else _finding(found)


def has_found(database: Database, run_id: int, finding_id: int) -> bool:
    """Whether this finding is one of this run's."""

    def read(tx: Transaction) -> bool:
        as_viewer(tx)
        return views_reprocess.has_found(tx, run_id, finding_id)

    return database.run(read)


def _void(database: Database, run: Run, role: Role) -> str:
    if run.mode is not RunMode.REPEAT or run.state is not RunState.WAITING:
        return ""
    return database.run(lambda tx: views_reprocess.void_because(tx, run.id), role=role)


def _pages(database: Database, role: Role, run_id: int, read: Callable[..., list[T]]) -> Iterator[T]:
    """All of them, page by page, each in a transaction of its own."""
    after = 0
    while page := database.run(lambda tx: read(tx, run_id, role, after=after), role=role):  # noqa: B023 - called at once
        yield from page
        after = page[-1].id


def _row(row: Row, run: Run) -> str:
    made = f": action {row.made_action_id}, {row.sent}" if row.made_action_id else ""
    found = [
        f"{n} {word}"
        for n, word in (
            (row.found_same, "stand"),
            (row.found_new, "would be new"),
            (row.found_differs, "would differ"),
        )
    ]
    proposals = f"; actions: {', '.join(found)}" if row.event_id and row.state == "done" else ""
    why = f": {plain(row.reason)}" if row.reason else ""
    state = "not begun" if row.state is RowState.WAITING and not run.is_open else row.state
    return f"{name(row)}: {plain(row.what, 80)}, {plain(row.key, 80)}{_to(row.recipients)}: {state}{why}{made}{proposals}"


def name(row: Row) -> str:
    numbers = {"event": row.event_id, "action": row.action_id, "finding": row.finding_id}
    return next(f"{word} {n}" for word, n in numbers.items() if n is not None)


def _finding(found: Finding) -> str:
    words = FOUND[found.found].format(action=found.action_id)
    gone = "; what it would send is no longer kept" if found.content_gone else ""
    return (
        f"finding {found.id}: event {found.event_id}: {plain(found.kind, 60)}, {plain(found.action_key, 80)}"
        f"{_to(found.recipients)}: {words}{gone}"
    )


def _to(recipients: tuple[str, ...] | None) -> str:
    return f"; to {', '.join(plain(one, 80) for one in recipients)}" if recipients else ""


def _row_json(row: Row) -> str:
    word, _, number = name(row).partition(" ")
    found = {"same": row.found_same, "new": row.found_new, "differs": row.found_differs}
    facts = {
        "state": row.state,
        "reason": row.reason or None,
        "what": row.what,
        "key": row.key,
        "found": found,
    }
    made = {"made_action": row.made_action_id, "sent": row.sent}
    return _json({word: int(number), **facts, **made}, row.recipients)


def _finding_json(found: Finding) -> str:
    about = {"finding": found.id, "event": found.event_id, "found": found.found, "action": found.action_id}
    key = {"kind": found.kind, "key": found.action_key, "kept": not found.content_gone}
    return _json({**about, **key}, found.recipients)


def _json(values: dict[str, object], recipients: tuple[str, ...] | None) -> str:
    shown = {"recipients": recipients} if recipients is not None else {}
    return json.dumps({**values, **shown}, ensure_ascii=True, default=str)
