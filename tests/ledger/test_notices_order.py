"""S8: what became of a message is the same in whatever order it was told, whenever our own record of the send came."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import permutations
from typing import Any, NamedTuple

import pytest

from ledger import views
from ledger.actions import answers
from ledger.database import Transaction
from ledger.evidence import notices
from ledger.evidence.notices import Notice, What
from ledger.records import Accepted, Role
from ledger.views import notices as views_notices
from ledger.views import status
from tests.fix_notices import Provider
from tests.fix_sends import KEYLESS, Sends

ANN, BO = "ann@example.com", "bo@example.com"


class Told(NamedTuple):
    what: What
    at_s: float
    to: str = ANN


LIFE = [
    Told(What.SENT, 0),
    Told(What.DELIVERED, 1),
    Told(What.BOUNCED, 2),
    Told(What.COMPLAINED, 3),
    Told(What.REJECTED, 4),
]
ONE_INSTANT = [
    told._replace(at_s=0) for told in LIFE
]  # a provider that tells no seconds: the order of a life
TWO_PEOPLE = [
    Told(What.DELIVERED, 1), Told(What.BOUNCED, 1, BO), Told(What.BOUNCED, 0), Told(What.COMPLAINED, 9), Told(What.DELIVERED, 5, BO),
]  # fmt: skip


class Books:
    """Messages that were accepted, and what is told of them; each order is one message in one transaction."""

    def __init__(self, sends: Sends, provider: Provider, told: list[Told]) -> None:
        self.sends, self.told, self.now = sends, told, provider.now()
        self.events = [provider.event() for _ in told]
        self.attempt = sends.started(self._claimed())

    def _claimed(self) -> Any:
        self.action_id = self.sends.proposed(KEYLESS)
        return self.sends.claimed()

    def after(self, order: tuple[int, ...], recorded_at: int, message_id: str = "m") -> Any:
        """What is shown, counted and kept after this order, with our own record at this place; nothing of it stays."""
        with self.sends.by_owner.transaction() as tx, _undone(tx):
            twice = order[:1] if recorded_at == 0 else ()
            for n in (*order[:recorded_at], None, *order[recorded_at:], *twice):
                self._record(tx, message_id) if n is None else self._tell(tx, n, message_id)
            return self._state(tx, message_id)

    def _record(self, tx: Transaction, message_id: str) -> None:
        answers.record_answer(
            tx, self.attempt, Accepted(f"<{message_id}>"), chance=0.5, writer=self.sends.writer
        )

    def _tell(self, tx: Transaction, n: int, message_id: str) -> None:
        what, at_s, to = self.told[n]
        at = self.now + timedelta(seconds=at_s)
        notices.keep(
            tx, Notice("inboxili", message_id, what, at, (to,), f"detail {n}"), event_id=self.events[n]
        )

    def _state(self, tx: Transaction, message_id: str) -> Any:
        shown = [
            (one.recipient, [(said.what, said.occurred_at, said.detail) for said in one.said])
            for one in views_notices.of_action(tx, self.action_id)
        ]
        standing = tx.one(
            "SELECT standing FROM nottwice.messages WHERE message_id = :m", m=message_id
        ).standing
        state = tx.one("SELECT state, verdict FROM nottwice.actions WHERE id = :id", id=self.action_id)
        evidence = tx.one("SELECT count(*) AS n FROM nottwice.evidence").n
        return shown, standing, tuple(state), evidence


@contextmanager
def _undone(tx: Transaction) -> Iterator[None]:
    """A savepoint that is always rolled back: the next order finds what this one found."""
    tx.execute("SAVEPOINT before")
    yield
    tx.execute("ROLLBACK TO SAVEPOINT before")


@pytest.mark.parametrize(
    ("told", "every", "last", "standing"),
    [
        (LIFE, 1, {ANN: What.REJECTED}, "rejected"),
        (ONE_INSTANT, 5, {ANN: What.REJECTED}, "rejected"),
        (TWO_PEOPLE, 5, {ANN: What.COMPLAINED, BO: What.DELIVERED}, "complained"),
    ],
    ids=["five of one life", "five of one instant", "two recipients"],
)
def test_all_orders_of_five_end_the_same(
    sends: Sends, provider: Provider, told: list[Told], every: int, last: dict[str, What], standing: str
) -> None:
    books = Books(sends, provider, told)
    orders = list(permutations(range(len(told))))[::every]
    ends = [books.after(order, n % (len(told) + 1)) for n, order in enumerate(orders)]
    assert len(ends) == 120 // every
    assert ends == [ends[0]] * len(ends)
    shown, stands, state, evidence = ends[0]
    assert {recipient: said[-1][0] for recipient, said in shown} == last
    assert (stands, state, evidence) == (standing, ("sent", "was_sent"), 0)


def test_the_order_of_a_life_is_the_same_in_both(sends: Sends) -> None:
    places = sends.rows(
        "SELECT w, nottwice.place_in_life(w) AS n FROM unnest(CAST(:w AS text[])) AS w", w=list(What)
    )
    assert [row.n for row in sorted(places, key=lambda row: list(What).index(What(row.w)))] == [1, 2, 3, 4, 5]


# ── Figures ───────────────────────────────────────────────────────────────────────────────────────────


def accepted(sends: Sends, message_id: str) -> int:
    action_id = sends.proposed(KEYLESS)
    sends.tried(action_id, Accepted(message_id))
    return action_id


def figures(sends: Sends) -> tuple[int, int, int]:
    hour = sends.by_console.run(lambda tx: views.hour(tx), role=Role.VIEWER)
    return hour.delivered_today, hour.no_word_today, hour.bounced_today


def today(sends: Sends) -> datetime:
    """Tests that run across midnight count what is of today only."""
    at: datetime = sends.rows("SELECT date_trunc('day', now(), 'UTC') AS at")[0].at
    return at


def test_snd_10_what_bounced_is_no_success(sends: Sends, provider: Provider) -> None:
    before = today(sends)
    for n in range(4):
        accepted(sends, f"<m{n}>")
    provider.says("delivered", "m0")
    provider.says("bounced", "m1")
    provider.says("bounced", "m1")  # told twice, counted once
    provider.says("delivered", "m2", ANN)
    provider.says("bounced", "m2", BO)
    provider.says("bounced", "somebody else's")
    if today(sends) == before:
        assert figures(sends) == (1, 1, 2)
    counted = sends.by_console.run(status.status, role=Role.VIEWER)
    assert counted["actions"]["sent"] == 4
    assert counted["messages"] == {"sent": 0, "delivered": 1, "bounced": 2, "complained": 0, "rejected": 0}
    assert len(sends.rows("SELECT FROM nottwice.action_attempts")) == 4  # nobody sends again because of it
    provider.says("delivered", "m1", at_s=60)  # it arrived after all
    counted = sends.by_console.run(status.status, role=Role.VIEWER)
    assert (counted["messages"]["delivered"], counted["messages"]["bounced"]) == (2, 1)


def test_snd_10_a_bounce_that_is_told_before_our_record_counts_from_then_on(
    sends: Sends, provider: Provider
) -> None:
    action_id = sends.proposed(KEYLESS)
    attempt = sends.started(sends.claimed())
    provider.says("bounced", "m0")
    counted = sends.by_console.run(status.status, role=Role.VIEWER)
    assert counted["messages"]["bounced"] == 0  # nobody knows yet that it is ours
    sends.answered(attempt, Accepted("<m0>"))
    counted = sends.by_console.run(status.status, role=Role.VIEWER)
    assert (counted["messages"]["bounced"], counted["actions"]["sent"]) == (1, 1)
    assert sends.state(action_id) == "sent"
