"""WRK-03 at every boundary: a worker stands still past its lease, others go on, and it wakes up.

Inside a transaction too: there the server ends it, as it does by the role's own limit of less than half a lease. What a
worker does when it wakes changes nothing that others did, and an answer that comes late is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
import sqlalchemy as sa

from tests.failures.boundaries import Boundary
from tests.failures.counting import of_part, one_road_each
from tests.failures.ends import all_ended_well
from tests.failures.ground import LEASE_S, Ground, Life, side_by_side

pytestmark = pytest.mark.xdist_group("boundaries")
AT_ONCE = 8
PARTS = 3


@pytest.mark.parametrize("part", range(PARTS))
def test_wrk_03_frozen_at_every_boundary_of_a_send_with_a_key(
    ground: Ground, of_a_send: dict[str, list[Boundary]], part: int
) -> None:
    """From the claim of the event on, ahead of each step."""
    own = of_part(ahead_of_each(of_a_send["keyed since its claim"]), part, PARTS)
    for some in groups(own):
        frozen_and_awake(ground, "keyed", some)


def test_wrk_03_frozen_around_a_call_without_a_key(
    ground: Ground, of_a_send: dict[str, list[Boundary]]
) -> None:
    """What its call is made of, and the first statement after it."""
    own = of_a_send["keyless"]
    last = max(n for n, b in enumerate(own) if b.by == "provider-call")
    after = next(b for b in own[last + 1 :] if b.by.startswith("send-"))
    frozen_and_awake(ground, "keyless", [*(b for b in own if b.by == "provider-call"), after])


def frozen_and_awake(ground: Ground, sender: str, boundaries: Sequence[Boundary]) -> None:
    ground.end_idle_transactions(int(LEASE_S * 500))
    lives = side_by_side(lambda b: ground.frozen(sender, b), boundaries)
    ground.end_idle_transactions(0)
    stopped = [life for life in lives if life.was_struck]
    assert len(stopped) >= len(lives) / 2, "hardly any came to its boundary"
    ground.take_over(lives)
    before = {life.number: what_stands(ground, life) for life in lives}
    side_by_side(ground.goes_on, stopped)
    for life in stopped:
        nothing_changed(life, before[life.number], what_stands(ground, life))
    all_ended_well(ground, lives)


STANDS = """
SELECT e.state AS work, e.version, e.attempts, a.state AS send, f.run_by,
       (SELECT count(*) FROM nottwice.action_attempts t WHERE t.action_id = a.id) AS tries,
       (SELECT count(*) FROM nottwice.action_attempts t WHERE t.action_id = a.id AND t.outcome IS NOT NULL) AS answers
FROM nottwice.events e JOIN nottwice.actions a ON a.event_id = e.id
JOIN public.effects f ON 'order.' || substr(f.event_key, 2) = e.type WHERE e.type = :type
"""


def what_stands(ground: Ground, life: Life) -> sa.Row[tuple[object, ...]]:
    """One row: there is one event, one action, one local change."""
    (row,) = ground.rows(STANDS, type=f"order.{life.number}")
    return row


def nothing_changed(
    life: Life, before: sa.Row[tuple[object, ...]], after: sa.Row[tuple[object, ...]]
) -> None:
    """Except that each call it began has its answer, which may settle what waited for a person."""
    about = (str(life.struck), before, after, life.child.said())
    assert after[:3] + after[4:6] == before[:3] + before[4:6], about
    assert after.send == before.send or (before.send, after.send) == ("needs_review", "sent"), about
    assert after.answers == after.tries, about


def ahead_of_each(boundaries: Iterable[Boundary]) -> list[Boundary]:
    return [b for b in one_road_each(boundaries) if b.when == "before"]


def groups(boundaries: Sequence[Boundary]) -> list[Sequence[Boundary]]:
    """So many as may stand still at once: each has its connections."""
    return [boundaries[n : n + AT_ONCE] for n in range(0, len(boundaries), AT_ONCE)]
