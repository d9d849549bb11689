"""Whether this ledger is where it was. After a restore or a clone nothing is sent until a named person releases it.

What is noticed: another server, database or table under the same ledger (a dump that was restored, a database made from
a template, a server that was made anew); a copy of an embedded server's files; a ledger that knows fewer tries than a
worker of it had started (a backup put back in place). What is not: `docs/accounts.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ledger import audit
from ledger.database import Transaction
from ledger.errors import Incomplete, NotAllowed, NotNow
from ledger.records import Act, Role

RELEASE = "release sending"  # the act's name in the audit
WHO = frozenset({Role.ADMIN})  # sql/0031 holds to it as well
OTHER_SERVER = "It is in another database than it was."
OTHER_FILES = "Its files are a copy of those it was in."
SET_BACK = "It knows fewer sends than were made from it: it was set back to an earlier state."


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a ledger had come when a worker looked: its installation, its releases, and its last try."""

    installation: UUID
    releases: int
    last_try: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a ledger stands now. `why` is empty while it may send."""

    mark: Mark
    why: str
    is_new: bool = False  # this look found it


READ = """
SELECT i.id, i.releases, i.folder, i.held_why, i.place IS NOT DISTINCT FROM nottwice.place() AS in_place,
       coalesce((SELECT max(id) FROM nottwice.action_attempts),
                pg_sequence_last_value('nottwice.action_attempts_id_seq'), 0) AS last_try
FROM nottwice.installation i
"""
HOLD = """
UPDATE nottwice.installation SET held_since = now(), held_why = :why WHERE held_since IS NULL RETURNING held_since
"""
KNOWN = "UPDATE nottwice.installation SET folder = :folder WHERE folder IS NULL AND held_since IS NULL"


def look(tx: Transaction, folder: str | None = None, noted: Mark | None = None) -> Standing:
    """Compare, and hold the ledger where it is not what it was.

    `folder` tells the files of an embedded server from a copy; `noted` is what this worker's home remembers of it.
    """
    row = tx.one(READ)
    mark = Mark(row.id, row.releases, int(row.last_try))
    if row.held_why:
        return Standing(mark, row.held_why)
    why = _why(row, mark, folder, noted)
    if why:
        return Standing(mark, why, is_new=tx.first(HOLD, why=why) is not None)
    if folder is not None and row.folder is None:
        tx.execute(KNOWN, folder=folder)
    return Standing(mark, "")


def _why(row: sa.Row[Any], mark: Mark, folder: str | None, noted: Mark | None) -> str:
    if not row.in_place:
        return OTHER_SERVER
    if folder is not None and row.folder not in (None, folder):
        return OTHER_FILES
    if noted is None or noted.installation != mark.installation:
        return ""
    return SET_BACK if (mark.releases, mark.last_try) < (noted.releases, noted.last_try) else ""


@dataclass(frozen=True, slots=True)
class Held:
    """A ledger that sends nothing: for how long it is known, why, and how many sends wait, by whether keys protect them.

    All that `release` puts in doubt: those that wait for a person's approval, and those that were under way, as well.
    """

    since_s: float
    why: str
    keyed: int
    keyless: int
    releases: int  # before this one


HELD = """
SELECT coalesce(nottwice.seconds_since(i.held_since), 0) AS since_s, coalesce(nullif(i.held_why, ''), :other) AS why, i.releases
FROM nottwice.installation i WHERE NOT nottwice.may_send()
"""
# Each state over its own small index: asked for together, the console's reading would look among all that was ever sent.
WAITING = """
SELECT count(*) FILTER (WHERE key_window_s IS NOT NULL) AS keyed, count(*) FILTER (WHERE key_window_s IS NULL) AS keyless
FROM (SELECT key_window_s FROM nottwice.actions WHERE state = 'proposed'
      UNION ALL SELECT key_window_s FROM nottwice.actions WHERE state = 'approved'
      UNION ALL SELECT key_window_s FROM nottwice.actions WHERE state = 'sending') AS n
"""


def held(tx: Transaction) -> Held | None:
    """What people are told; also before a worker has looked. None: it may send, and nothing is counted."""
    row = tx.first(HELD, other=OTHER_SERVER)
    return None if row is None else Held(**row._asdict(), **tx.one(WAITING)._asdict())


def why_held(tx: Transaction) -> str:
    """Why nothing is sent, without counting what waits; empty while it may send."""
    row = tx.first(
        "SELECT coalesce(nullif(held_why, ''), :other) AS why FROM nottwice.installation WHERE NOT nottwice.may_send()",
        other=OTHER_SERVER,
    )
    return row.why if row else ""


def release(tx: Transaction, act: Act, *, whole: bool = False) -> int:
    """Let it send again, in a person's name; returns how many waiting sends may have gone out since.

    `whole`: it was moved with everything in it, and nothing was sent from where it was. Then none is marked. Raises
    NotAllowed (an admin may), Incomplete, NotNow (it is not held), AlreadyDecided.
    """
    if act.person.role not in WHO:
        raise NotAllowed("You can read this. An admin releases it.")
    if not act.reason.strip():
        raise Incomplete("Nothing was done. Please say why.")
    now = held(tx)
    if now is None:
        raise NotNow("Sending is not held, so there is nothing to release.")
    detail = "moved whole" if whole else "what waits may have gone out since"
    audit_id = audit.done(
        tx,
        act,
        RELEASE,
        "installation",
        1,
        version=None,
        before="held",
        after="sending",
        known=now.why,
        detail=detail,
    )
    sql = "SELECT nottwice.release_sending(:audit_id, :whole) AS marked"
    return int(tx.one(sql, audit_id=audit_id, whole=whole).marked)
