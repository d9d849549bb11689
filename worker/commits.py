"""How claims end: in optimistic groups, and one by one where a group was undone.

A group is one transaction without savepoints: all completions first, then each apply part. On any error nobody is
blamed: the group is rolled back, and each member is applied in a transaction of its own, under the same lease and
with the kept result of its slow part. Only a handler's own exception there is a failed attempt, see `failed.py`.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from uuid import UUID, uuid4

from ledger import faults, work
from ledger.database import Database, Transaction, sqlstate
from ledger.database.driven import sent_ahead
from ledger.errors import LeaseLost, Unavailable
from ledger.figures import counters
from ledger.records.by_place import by_place
from ledger.settings import Settings
from worker import failed, recomputing
from worker.handlers import Propose
from worker.in_hand import Ending, InHand, Stage
from worker.observer import note

GROUP_LOCK_WAIT = (
    "50ms"  # a group that fights over the user's rows gives up early; alone each may wait longer
)
GROUP_S_MAX = 1.0
CLOSE = "SET CONSTRAINTS ALL IMMEDIATE"  # what only the commit would say is said while it can still be undone
AGAIN_S = 0.5
TRIES_MAX = 20


_propose = by_place(Propose)


class TooSlow(Exception):
    """A group took longer than its second; its members go one by one."""


class _Own(threading.local):
    """Each thread counts in rows of its own, so that no two wait for each other."""

    def __init__(self) -> None:
        self.writer: UUID = uuid4()


class Commits:
    """Ends claims. `ended` is told of each; called on any thread. `own`: for groups, which may fail and be tried again."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        ended: Callable[[Sequence[InHand], Ending], None],
        own: Database | None = None,
    ) -> None:
        self._database, self._ended, self.settings = database, ended, settings
        self._for_groups = own or database
        self._own = _Own()

    def together(self, group: Sequence[InHand]) -> bool:
        """Commit a group; False: it was undone, and each member has to `settle`. Raises Unavailable: try again."""
        try:
            held, made = self._one_transaction(group)
        except BaseException as error:
            begun = any(one.stage is Stage.APPLYING for one in group)
            for one in group:
                one.stage = Stage.READY
            if isinstance(error, Unavailable) and not begun:
                raise
            note("group undone", size=len(group), error=type(error).__name__, code=sqlstate(error))
            return False
        faults.point("worker.after_commit")
        _note_proposed(made)
        self._end([one for one in group if one in held], Ending.COMPLETED)
        self._end([one for one in group if one not in held], Ending.LEASE_LOST)
        return True

    def _one_transaction(self, group: Sequence[InHand]) -> tuple[set[InHand], list[Propose]]:
        ends_at = time.monotonic() + GROUP_S_MAX
        with self._for_groups.transaction() as opened:
            with sent_ahead(opened) as tx:
                tx.execute(f"SET LOCAL lock_timeout = '{GROUP_LOCK_WAIT}'")
                leases = work.complete(tx, [one.claimed.lease for one in group], writer=self._own.writer)
                held = {one for one in group if one.claimed.lease in leases}
                with tx.kept():
                    made = [self._apply_within(tx, one, ends_at) for one in group if one in held]
                tx.execute(CLOSE)
            if len(held) > 1:  # what was sent ahead may have taken longer than it took to send it
                _refuse_after(ends_at)
            faults.point("worker.before_commit")
        return held, made

    def _apply_within(self, tx: Transaction, one: InHand, ends_at: float) -> Propose:
        _refuse_after(ends_at)
        return self._apply(tx, one)

    def settle(self, one: InHand) -> None:
        """End one claim in a transaction of its own, however long the database is away."""
        for tries in count(1):
            try:
                ending = self._record_failure(one, one.error) if one.error else self._apply_alone(one)
            except LeaseLost:
                ending = Ending.LEASE_LOST
            except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own failure
                if not self._is_left(one, error, tries):
                    continue
                ending = Ending.LEFT
            self._end([one], ending)
            return

    def _is_left(self, one: InHand, error: BaseException, tries: int) -> bool:
        """Find out whose error it was: the handler's is kept to be recorded, after any other we try again."""
        blamed = one.error is None and failed.is_the_handlers(one, error)
        one.stage = Stage.READY
        if blamed:
            one.error = error
            return False
        note("not ended yet", event_id=one.claimed.event.id, error=type(error).__name__)
        time.sleep(AGAIN_S * random.uniform(0.5, 1.0))
        return tries >= TRIES_MAX and not isinstance(error, Unavailable)

    def _apply_alone(self, one: InHand) -> Ending:
        made = self._database.run(lambda tx: self._complete_one(tx, one))
        faults.point("worker.after_commit")
        _note_proposed([made])
        return Ending.COMPLETED

    def _complete_one(self, tx: Transaction, one: InHand) -> Propose:
        one.stage = Stage.READY
        if not work.complete(tx, [one.claimed.lease], writer=self._own.writer):
            raise LeaseLost(f"The claim of event {one.claimed.event.id} is in other hands.")
        with tx.kept():
            made = self._apply(tx, one)
        tx.execute(CLOSE)
        faults.point("worker.before_commit")
        return made

    def _apply(self, tx: Transaction, one: InHand) -> Propose:
        one.begin(Stage.APPLYING, self.settings.worker.run_s_max)
        propose = _propose(tx, one.claimed.event, self.settings, [], [])
        if one.handler.slow is None:
            faults.point("worker.in_handler")
        recomputing.carry_out(tx, one.handler, one.prepared, propose)
        return propose

    def _record_failure(self, one: InHand, error: BaseException) -> Ending:
        writer, base_s = self._own.writer, self.settings.worker.retry_base_s
        return self._database.run(
            lambda tx: failed.record(tx, one.claimed, error, writer=writer, base_s=base_s)
        )

    def _end(self, ended: Sequence[InHand], ending: Ending) -> None:
        if ended:
            self._ended(ended, ending)
        if ended and ending is Ending.LEASE_LOST:
            lost = Counter((one.claimed.event.namespace, ending.value) for one in ended)
            with suppress(Exception):  # a figure for a chart; the claims are settled
                self._database.run(lambda tx: counters.bump_many(tx, self._own.writer, lost))


def _refuse_after(ends_at: float) -> None:
    if time.monotonic() > ends_at:
        raise TooSlow


def _note_proposed(made: Sequence[Propose]) -> None:
    for propose in made:
        for kind, action in propose.made:
            facts = {"event_id": propose.event.id, "action_id": action.action_id, "kind": kind}
            said = (
                "proposed" if action.created else "would be new" if action.would_be_new else "proposed before"
            )
            note(said, same=action.same_content, **facts)
            if action.kind != kind:  # its provider, policy and approval hold, not those of this kind
                note("the key is another kind's", standing=action.kind, **facts)
