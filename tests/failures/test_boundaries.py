"""WRK-01 at every boundary: a process is killed before and after each statement, each COMMIT, each step of its call.

A life that nobody strikes counts the boundaries. Each of them then has a life of its own that ends there, and one worker
takes over what they all left. So a statement is covered from the day it is written.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from ledger import recovery
from tests.failures.boundaries import UNSEEN, Boundary
from tests.failures.ground import LEASE_S, SWEEP_S, Ground, Life, nonsense, side_by_side
from tests.failures.house import until

pytestmark = pytest.mark.xdist_group("boundaries")
PARTS = 6
TRIES = 4
SLACK_S = 20.0  # of a busy machine


def counted(one: Callable[[], Life], since: str = "") -> list[Boundary]:
    """The boundaries of a life that nobody strikes, or those after something it says; no road that is chance."""
    first, second = (one() for _ in range(2))
    for life in (first, second):
        assert life.child.wait() == 0, life.child.said()
    roads = {b.road for b in second.child.ledger.read(since=since)}
    return [b for b in first.child.ledger.read(since=since) if b.road in roads]


@pytest.fixture(scope="session")
def of_a_send(ground: Ground) -> dict[str, list[Boundary]]:
    """The boundaries of a worker's life, by the sender of its e-mail.

    Without a key from the completion of the event on: what is ahead of it knows no provider.
    """
    keyless = counted(lambda: ground.worked("keyless"), since="completed")
    return {"keyed": counted(lambda: ground.worked("keyed")), "keyless": keyless}


@pytest.fixture(scope="session")
def of_accepting(ground: Ground) -> list[Boundary]:
    return counted(lambda: ground.received("keyed"))


@pytest.mark.parametrize("part", range(PARTS))
def test_wrk_01_killed_at_every_boundary_of_a_send_with_a_key(
    ground: Ground, of_a_send: dict[str, list[Boundary]], part: int
) -> None:
    lives = struck_at_each(lambda b: ground.worked("keyed", b), of_part(of_a_send["keyed"], part, PARTS))
    everything_holds(ground, lives)


@pytest.mark.parametrize("part", range(2))
def test_wrk_01_killed_at_every_boundary_of_a_send_without_a_key(
    ground: Ground, of_a_send: dict[str, list[Boundary]], part: int
) -> None:
    lives = struck_at_each(lambda b: ground.worked("keyless", b), of_part(of_a_send["keyless"], part, 2))
    everything_holds(ground, lives)


@pytest.mark.parametrize("part", range(2))
def test_inb_04_killed_at_every_boundary_of_accepting(
    ground: Ground, of_accepting: list[Boundary], part: int
) -> None:
    """What was acknowledged is there; what was not is delivered again, and is there once."""
    lives = struck_at_each(lambda b: ground.received("keyed", b), of_part(of_accepting, part, 2))
    for life in lives:
        what_was_acknowledged_is_there(ground, life)
        assert ground.deliver(life.number, "keyed") == 200
    everything_holds(ground, lives)


def test_a_statement_is_covered_from_the_day_it_is_written(
    ground: Ground, of_a_send: dict[str, list[Boundary]]
) -> None:
    """By the ledger's own way or by the driver's, each is two boundaries more, and a process is killed there."""
    known = {b.text for b in of_a_send["keyed"]}
    lives = []
    for further, words in (("statement", "a further statement"), ("driver", "by the driver")):
        seen = counted(lambda f=further: ground.worked("keyed", further=f))  # type: ignore[misc]
        new = [b for b in seen if words in b.what]
        assert [b.when for b in new] == ["before", "after"]
        assert not {b.text for b in new} & known
        lives += struck_at_each(lambda b, f=further: ground.worked("keyed", b, further=f), new)  # type: ignore[misc]
    everything_holds(ground, lives)


def test_an_exchange_that_the_observer_cannot_see_is_noticed(ground: Ground) -> None:
    boundaries = ground.worked("keyed", further="unseen").child.ledger.read()
    with pytest.raises(AssertionError, match=UNSEEN):
        struck_at_each(lambda b: ground.worked("keyed", b), boundaries)


def struck_at_each(one: Callable[[Boundary], Life], boundaries: Sequence[Boundary]) -> list[Life]:
    """A life that ends there for each boundary; where chance led past one, others of the same kind."""
    assert UNSEEN not in {b.text for b in boundaries}, [str(b) for b in boundaries if b.text == UNSEEN]
    lives, left = [], list(boundaries)
    for _ in range(TRIES):
        tried = side_by_side(one, left)
        lives += tried
        left = [life.struck for life in tried if life.struck and not life.was_struck]
    killed = [life for life in lives if life.child.code == -signal.SIGKILL]
    assert len(killed) == sum(life.was_struck for life in lives)
    covered = {(life.struck.text, life.struck.when) for life in killed if life.struck}
    assert covered == {(b.text, b.when) for b in boundaries}, [str(b) for b in left]
    assert len(left) <= 2, [str(b) for b in left]  # further roads to a statement that was covered
    return lives


def everything_holds(ground: Ground, lives: Sequence[Life]) -> None:
    """Nothing stays stuck; each event was worked once; each e-mail went out once, or a person is asked."""
    until(lambda: ground.nothing_is_held(lives), within_s=LEASE_S + SWEEP_S + SLACK_S)
    ground.take_over(lives)
    assert ground.database.run(recovery.invariant_violations) == []
    ends, mails = ends_of(ground), mails_of(ground)
    for life in lives:
        end, sent = ends[life.number], mails.get(life.number, [])
        about = (str(life.struck), end, life.child.said())
        assert (end.work, end.effects) == ("completed", 1), about
        assert len(sent) <= 1, about
        known = life.sender == "keyed" or end.accepted or not end.tries
        assert end.send == ("sent" if known else "needs_review"), about
        assert len(sent) == 1 or not known, about
    one_key_one_request(ground)


ENDS = """
SELECT CAST(substr(e.type, 7) AS int) AS number, e.state AS work, a.state AS send,
       (SELECT count(*) FROM public.effects f WHERE 'order.' || substr(f.event_key, 2) = e.type) AS effects,
       (SELECT count(*) FROM nottwice.action_attempts t WHERE t.action_id = a.id) AS tries,
       (SELECT count(*) FROM nottwice.action_attempts t WHERE t.action_id = a.id AND t.outcome = 'accepted') AS accepted
FROM nottwice.events e LEFT JOIN nottwice.actions a ON a.event_id = e.id
"""


def ends_of(ground: Ground) -> dict[int, Any]:
    rows = ground.rows(ENDS)
    ends = {row.number: row for row in rows}
    assert len(ends) == len(rows), "an event or an action is there twice"
    return ends


def mails_of(ground: Ground) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for mail in ground.seen_by_the_provider("mails"):
        (to,) = mail["recipients"]
        found.setdefault(int(to.partition("@")[0][1:]), []).append(mail)
    return found


def one_key_one_request(ground: Ground) -> None:
    """Whoever sends it, and however often: under one key always the same bytes."""
    asked = ground.seen_by_the_provider("requests")
    told = {(r["idempotency_key"], r["body_digest"]) for r in asked if r["idempotency_key"]}
    assert len(told) == len({key for key, _ in told})


STORED = """
SELECT (SELECT count(*) FROM nottwice.events WHERE type = :type) AS events,
       (SELECT count(*) FROM nottwice.conflicts c JOIN nottwice.events e ON e.id = c.event_id WHERE e.type = :type) AS conflicts,
       (SELECT count(*) FROM nottwice.quarantine WHERE body = :nonsense) AS quarantined
"""


def what_was_acknowledged_is_there(ground: Ground, life: Life) -> None:
    new, again, changed, no_event = (answer == 200 for answer in life.answers)
    (found,) = ground.rows(STORED, type=f"order.{life.number}", nonsense=nonsense(life.number))
    assert found.events == 1 or not (new or again), life
    assert found.conflicts == 1 or not changed, life
    assert found.quarantined == 1 or not no_event, life


def of_part(boundaries: Iterable[Boundary], part: int, parts: int) -> list[Boundary]:
    """A share of them, by their statement: all roads that lead to one are in the same part."""
    return [b for b in boundaries if int(b.text, 16) % parts == part]
