"""WRK-01 at every boundary: a process is killed before and after each statement, each COMMIT, each step of its call.

A life that nobody strikes counts the boundaries. Each of them then has a life of its own that ends there (one for both
where a step ends and the next begins), and one worker takes over what they all left. So a statement is covered from the day it is written.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

import pytest

from tests.failures.boundaries import UNSEEN, Boundary
from tests.failures.counting import counted, moments, of_part, one_road_each, roads
from tests.failures.ends import everything_holds
from tests.failures.ground import Ground, Life, nonsense, side_by_side

pytestmark = pytest.mark.xdist_group("boundaries")
PARTS = 6
TRIES = 4


@pytest.fixture(scope="session")
def of_accepting(ground: Ground) -> list[Boundary]:
    return roads(counted(lambda: ground.received("keyed")))


@pytest.mark.parametrize("part", range(PARTS))
def test_wrk_01_killed_at_every_boundary_of_a_send_with_a_key(
    ground: Ground, of_a_send: dict[str, list[Boundary]], part: int
) -> None:
    lives = struck_at_each(
        lambda b: ground.worked("keyed", b), of_part(moments(of_a_send["keyed"]), part, PARTS)
    )
    everything_holds(ground, lives)


@pytest.mark.parametrize("part", range(2))
def test_wrk_01_killed_at_every_boundary_of_a_send_without_a_key(
    ground: Ground, of_a_send: dict[str, list[Boundary]], part: int
) -> None:
    lives = struck_at_each(
        lambda b: ground.worked("keyless", b), of_part(moments(of_a_send["keyless"]), part, 2)
    )
    everything_holds(ground, lives)


@pytest.mark.parametrize("part", range(2))
def test_inb_04_killed_at_every_boundary_of_accepting(
    ground: Ground, of_accepting: list[Boundary], part: int
) -> None:
    """What was acknowledged is there; what was not is delivered again, and is there once."""
    lives = struck_at_each(lambda b: ground.received("keyed", b), of_part(moments(of_accepting), part, 2))
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
        seen = roads(counted(lambda f=further: ground.worked("keyed", further=f)))  # type: ignore[misc]
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
    lives, left = list[Life](), one_road_each(boundaries)
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
