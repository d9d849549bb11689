"""Processes that are alive, what an idle one waits for, and when the sweep may rescue."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from ledger.database import Transaction
from ledger.records import Worker

Kind = Literal["worker", "receiver"]
INTERVALS_MISSED = 3  # a sweep that is later than this follows an outage


@dataclass(frozen=True, slots=True)
class Alive:
    """A process that gave a sign of life lately, and how many seconds ago."""

    id: UUID
    name: str
    host: str
    pid: int
    started_at: datetime
    silent_s: float


def register(
    tx: Transaction,
    worker: Worker,
    *,
    kind: Kind = "worker",
    host: str | None = None,
    pid: int | None = None,
    refused: bool = False,
) -> None:
    """Note a start of a process, or a sign of life. The id is random per start: a name that comes again is another worker.

    `host` and `pid` are this process's own where they are not given. How far this host's clock is from the database's is
    noted with it; and since when it has `refused` the configuration that it was told to read again.
    """
    tx.execute(
        """INSERT INTO nottwice.workers AS w (id, name, kind, host, pid, handles, ahead_s, refused_at)
           VALUES (:id, :name, :kind, :host, :pid, CAST(:handles AS text[]), :clock - extract(epoch FROM clock_timestamp()),
                   CASE WHEN CAST(:refused AS boolean) THEN now() END)
           ON CONFLICT (id) DO UPDATE SET seen_at = now(), stopped_at = NULL, ahead_s = excluded.ahead_s,
               refused_at = CASE WHEN excluded.refused_at IS NOT NULL THEN coalesce(w.refused_at, excluded.refused_at) END""",
        id=worker.id,
        name=worker.name,
        kind=kind,
        host=socket.gethostname() if host is None else host,
        pid=os.getpid() if pid is None else pid,
        handles=[f"{source} {type_}" for source, type_ in worker.handles],
        clock=time.time(),
        refused=refused,
    )


def beat(tx: Transaction, worker_id: UUID) -> None:
    """A sign of life."""
    tx.execute("UPDATE nottwice.workers SET seen_at = now() WHERE id = :id", id=worker_id)


def stop(tx: Transaction, worker_id: UUID) -> None:
    """An orderly end: nobody has to wonder where it went."""
    tx.execute("UPDATE nottwice.workers SET stopped_at = now() WHERE id = :id", id=worker_id)


def alive(tx: Transaction, silent_s: float, *, kind: Kind = "worker") -> list[Alive]:
    """Processes of one kind that have not stopped and gave a sign within `silent_s` seconds; the longest silent last."""
    rows = tx.all(
        """SELECT id, name, host, pid, started_at, CAST(extract(epoch FROM now() - seen_at) AS double precision) AS silent_s
           FROM nottwice.workers WHERE kind = :kind AND stopped_at IS NULL
             AND seen_at > now() - make_interval(secs => :silent_s) ORDER BY seen_at DESC, id""",
        kind=kind,
        silent_s=silent_s,
    )
    return [Alive(r.id, r.name, r.host, r.pid, r.started_at, r.silent_s) for r in rows]


def forget_silent(tx: Transaction, *, silent_s: float = 3600.0) -> int:
    """Drop processes that stopped, or gave no sign for so long that nobody asks for them any more."""
    return tx.execute(
        """DELETE FROM nottwice.workers
           WHERE coalesce(stopped_at, seen_at) < now() - make_interval(secs => :silent_s)""",
        silent_s=silent_s,
    ).rowcount


@dataclass(frozen=True, slots=True)
class Told:
    """What an idle worker is told: whether work is due, and the duties for which the ledger has something."""

    due: bool
    duties: frozenset[str]


TELLABLE = ("seal", "hint", "look", "reprocess")


def wait_for_work(
    tx: Transaction,
    handles: Sequence[tuple[str, str]],
    accounts: Sequence[str],
    *,
    patience_s: float,
    pause_s: float,
) -> Told:
    """One statement that looks every `pause_s` and returns at once when something is due; else after `patience_s`."""
    found = tx.one(
        """SELECT due, seal, hint, look, reprocess
           FROM nottwice.wait_and_tell(CAST(:sources AS text[]), CAST(:types AS text[]), CAST(:accounts AS text[]),
                                       make_interval(secs => :patience), make_interval(secs => :pause))""",
        sources=[source for source, _ in handles],
        types=[type_ for _, type_ in handles],
        accounts=list(accounts),
        patience=patience_s,
        pause=pause_s,
    )
    return Told(found.due, frozenset(name for name in TELLABLE if getattr(found, name)))


RESCUED_IS_DUE = """
SELECT FROM unnest(CAST(:sources AS text[]), CAST(:types AS text[])) AS h(source, type)
JOIN nottwice.events e ON e.source = h.source AND e.type = h.type
WHERE e.state = 'pending' AND e.alone AND e.waits_behind = 0 AND e.due_at <= now() LIMIT 1
"""


def rescued_is_due(tx: Transaction, handles: Sequence[tuple[str, str]]) -> bool:
    """Whether a rescued event of a handled kind waits for a process that does nothing else."""
    row = tx.first(
        RESCUED_IS_DUE, sources=[source for source, _ in handles], types=[type_ for _, type_ in handles]
    )
    return row is not None


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep finds to do: expired claims of events and of sends, and sends whose time to be tried is over."""

    events: bool
    sends: bool
    waits: bool


# One statement, so that an idle process asks little; the indexes behind it hold only what is under way. The inner
# ORDER BY keeps the planner from walking through all that was ever sent.
SWEEP = """
WITH swept AS (
    INSERT INTO nottwice.maintenance AS m (duty) VALUES ('sweep')
    ON CONFLICT (duty) DO UPDATE SET
        last_at = now(),
        server_started = pg_postmaster_start_time(),
        resume_at = CASE WHEN m.last_at < now() - make_interval(secs => :late_s) OR m.server_started <> pg_postmaster_start_time()
                         THEN now() + make_interval(secs => :lease_s) ELSE m.resume_at END
    RETURNING resume_at <= clock_timestamp() AS may)
SELECT may,
       EXISTS (SELECT FROM (SELECT FROM nottwice.events WHERE state = 'processing' AND lease_until < now()
                            ORDER BY lease_until LIMIT 1) AS e) AS events,
       EXISTS (SELECT FROM (SELECT FROM nottwice.actions WHERE state = 'sending' AND lease_until < now()
                            ORDER BY lease_until LIMIT 1) AS s) AS sends,
       EXISTS (SELECT FROM (SELECT FROM nottwice.actions WHERE state = 'approved' AND NOT decided_send
                              AND (retry_until <= now()
                                   OR nottwice.key_ends(first_started_at, key_window_s, key_margin_s) <= now())
                            ORDER BY retry_until, id LIMIT 1) AS w)
           OR EXISTS (SELECT FROM (SELECT FROM nottwice.actions WHERE state IN ('proposed', 'approved') AND send_before <= now()
                                   ORDER BY send_before, id LIMIT 1) AS l) AS waits
FROM swept
"""


def sweep(tx: Transaction, *, sweep_s: float, lease_s: float) -> Sweep | None:
    """Note a sweep, and say what it finds to do.

    None for one lease after an outage (a sweep far too late, or another start of the server): living workers renew
    and record first.
    """
    found = tx.one(SWEEP, late_s=INTERVALS_MISSED * sweep_s, lease_s=lease_s)
    return Sweep(found.events, found.sends, found.waits) if found.may else None
