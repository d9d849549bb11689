"""Events in hand: claims no more than there is room for, runs slow parts side by side, commits what is ready.

A slow part takes one of the slots while it runs, on a thread of its own. An event that has an apply part alone takes
a seat in the next group; `groups.py` commits those.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial

from ledger import faults, work
from ledger.database import Database, Transaction, outside_transactions
from ledger.errors import LeaseLost, Unavailable
from ledger.records import ClaimedEvent, EventLease, Worker
from ledger.settings import Settings
from worker.claims import Claims, Room
from worker.commits import Commits
from worker.groups import Groups
from worker.handlers import Handlers, Kind
from worker.heartbeat import Heartbeat, clock
from worker.in_hand import Ending, InHand, Stage
from worker.observer import note

AGAIN_S = 0.2


class Executor:
    """Claims on the caller's thread; everything it claimed ends by itself, and `wait` tells when something did."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        handlers: Handlers,
        worker: Worker,
        heartbeat: Heartbeat,
        own: Database | None = None,
    ) -> None:
        """`own`: for claims and groups, which go on by themselves after a broken connection; else `database`."""
        self._database, self._settings, self._handlers = database, settings, handlers
        self._heartbeat = heartbeat
        self._claims = Claims(own or database, settings, handlers, worker)
        self._commits = Commits(database, settings, self._ended, own)
        self._groups = Groups(self._commits, settings, self._next_group, self._put_back)
        self._in_hand: dict[EventLease, InHand] = {}
        self._ready: deque[InHand] = deque()
        self._changed = threading.Condition()
        self._alone = False
        self.overdue: set[EventLease] = set()

    def start(self) -> None:
        self._groups.start()

    def use(self, settings: Settings) -> None:
        """Go on with other rules; what is in hand is not touched."""
        self._settings = self._commits.settings = self._claims.settings = self._groups.settings = settings

    @property
    def in_hand(self) -> int:
        return len(self._in_hand)

    @property
    def is_alone(self) -> bool:
        """Whether a rescued event runs: then nothing else may run in this process."""
        return self._alone

    @property
    def kinds_with_room(self) -> tuple[Kind, ...]:
        return tuple(kind for worker, room in self._rooms() if room > 0 for kind in worker.handles)

    def wait(self, timeout_s: float) -> None:
        """Until something in hand has moved on."""
        with self._changed:
            self._changed.wait(timeout_s)

    def wait_for_a_lane(self, timeout_s: float) -> bool:
        """Until something moves on, if an event with an ordering key is about to end; whether one was.

        The next one of its lane may go as soon as it has: too soon for a look ten times a second.
        """
        with self._changed:
            ends_soon = any(
                one.claimed.in_lane and one.stage is not Stage.SLOW for one in self._in_hand.values()
            )
            return ends_soon and (self._changed.wait(timeout_s) or True)

    def wait_while(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        """Until something moves on, as long as that is so; whether it was and something has."""
        with self._changed:
            return is_so() and self._changed.wait(timeout_s)

    def tell(self) -> None:
        """Wake who waits: something beside the events has moved on."""
        with self._changed:
            self._changed.notify_all()

    def _rooms(self) -> list[Room]:
        with self._changed:
            running = sum(one.stage is Stage.SLOW for one in self._in_hand.values())
            waiting = len(self._ready)
        return self._claims.rooms(running, waiting, self._groups.last_s)

    # ── Claiming ──────────────────────────────────────────────────────────────────────────────────────

    def claim(self, *, idle: bool) -> int:
        """Take what there is room for and begin it; returns how many. `idle`: a rescued event first, and alone."""
        asked_at = clock()
        claimed = self._claims.take(self._rooms(), idle=idle)
        if claimed:
            self._heartbeat.hold_all([one.lease for one in claimed], asked_at)
            ids = [one.event.id for one in claimed]
            note(
                "claimed",
                event_ids=ids,
                again=sum(one.attempt > 1 for one in claimed),
                alone=claimed[0].alone,
            )
            faults.point("worker.after_claim")
            self._begin(claimed)
        return len(claimed)

    def rescued_is_due(self) -> bool:
        return self._claims.rescued_is_due()

    def _begin(self, claimed: Sequence[ClaimedEvent]) -> None:
        fresh = [self._taken(one) for one in claimed]
        with self._changed:
            self._alone = fresh[0].claimed.alone
            self._in_hand.update({one.claimed.lease: one for one in fresh})
            self._ready.extend(one for one in fresh if one.stage is Stage.READY)
            self._changed.notify_all()
        for one in fresh:
            if one.stage is Stage.SLOW:
                name = f"event-{one.claimed.event.id}"
                threading.Thread(target=self._prepare, args=(one,), name=name, daemon=True).start()

    def _taken(self, claimed: ClaimedEvent) -> InHand:
        handler = self._handlers.find(claimed.event)
        one = InHand(claimed, handler, Stage.READY)
        if handler.slow:
            one.begin(Stage.SLOW, self._settings.worker.run_s_max)
        return one

    def _prepare(self, one: InHand) -> None:
        try:
            faults.point("worker.in_handler")
            one.prepared = outside_transactions(one.handler.prepare, one.claimed.event)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own failure
            one.error = error
        with self._changed:
            one.stage = Stage.READY
            self._ready.append(one)
            self._changed.notify_all()

    # ── Ending ────────────────────────────────────────────────────────────────────────────────────────

    def _next_group(self, least: int, most: int) -> list[InHand]:
        with self._changed:
            self._changed.wait_for(lambda: len(self._ready) >= least)
            group = [self._ready.popleft() for _ in range(min(len(self._ready), most))]
            self._changed.notify_all()
        return group

    def _put_back(self, group: Sequence[InHand]) -> None:
        """Under its lease it may still complete, when the database is there again."""
        with self._changed:
            for one in group:
                one.stage = Stage.READY
            self._ready.extendleft(reversed(group))
        threading.Event().wait(AGAIN_S)

    def _ended(self, ended: Sequence[InHand], ending: Ending) -> None:
        self._heartbeat.release(*(one.claimed.lease for one in ended))
        ids = [one.claimed.event.id for one in ended]
        kinds = Counter(type(one.error).__name__ for one in ended if one.error)
        note(ending.value, event_ids=ids, **({"errors": dict(kinds)} if kinds else {}))
        with self._changed:
            for one in ended:
                self._in_hand.pop(one.claimed.lease, None)
                self.overdue.discard(one.claimed.lease)
                self._alone = self._alone and not one.claimed.alone
            if any(one.claimed.in_lane for one in ended):
                self._claims.look_at_all()
            self._changed.notify_all()

    def drop_overdue(self) -> None:
        """A handler past its time loses its lease: it is renewed no more, and `overdue` says so."""
        with self._changed:
            running = [one for one in self._in_hand.values() if one.stage is not Stage.READY]
        for one in running:
            lease = one.claimed.lease
            if one.deadline.is_over and lease not in self.overdue:
                self.overdue.add(lease)
                self._heartbeat.release(lease)
                note("ran too long", event_id=one.claimed.event.id, run_s_max=self._settings.worker.run_s_max)

    def hand_back(self) -> None:
        """Give back what has not ended: this process is going. The attempts are not burnt, except of the overdue."""
        for lease, one in list(self._in_hand.items()):
            if lease in self.overdue:
                continue
            try:
                self._database.run(partial(self._hand_back, one=one))
                note("handed back", event_id=one.claimed.event.id)
            except LeaseLost:
                pass  # it ended by itself meanwhile
            except Exception as error:  # noqa: BLE001 - its lease will run out
                note("not handed back", event_id=one.claimed.event.id, error=type(error).__name__)
                if isinstance(error, Unavailable):
                    return

    @staticmethod
    def _hand_back(tx: Transaction, one: InHand) -> None:
        tx.execute("SET LOCAL lock_timeout = '200ms'")  # its own commit may be under way; then that decides
        work.hand_back(tx, one.claimed.lease)
