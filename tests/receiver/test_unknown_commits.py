"""A commit that was sent and not answered may have happened: nothing is acknowledged before that is known."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from ledger.receiver.writer import TRIES_MAX
from tests.fix_proxy import Loss, between
from tests.fix_receiver import Rows, Start

COUNT = "SELECT count(*) FROM nottwice.events"


def event(key: object) -> bytes:
    return b'{"id":"%s","type":"t"}' % str(key).encode()


@pytest.mark.parametrize(("loss", "stands"), [(Loss.ANSWER, 1), (Loss.COMMIT, 0)])
def test_a_commit_that_is_lost_or_whose_answer_is_lost(
    receivers: Start, login_url: Callable[[str], str], rows: Rows, loss: Loss, stands: int
) -> None:
    """Lost once, the same write is tried again: it meets its own row, or is the first. Lost again and again: 503."""
    with between(login_url("nottwice_receiver")) as (proxy, through):
        receiver = receivers(DATABASE_URL=through)
        assert receiver.shop(event("before")) == 202
        proxy.lose(loss, 1)
        assert receiver.shop(event("once")) == 202
        assert (proxy.lost, rows(COUNT)) == (1, [(2,)])
        proxy.lose(loss, 1)
        with ThreadPoolExecutor(10) as pool:
            assert set(pool.map(receiver.shop, map(event, range(10)))) == {202}
        assert (proxy.lost, rows(COUNT)) == (1, [(12,)])
        proxy.lose(loss, TRIES_MAX)
        assert receiver.shop(event("always")) == 503
        assert (proxy.lost, rows(COUNT)) == (TRIES_MAX, [(12 + stands,)])
        assert receiver.shop(event("always")) == 202
        assert rows(COUNT) == [(13,)]
        assert rows("SELECT count(*) FROM nottwice.event_contents") == [(13,)]
        assert receiver.stop() == 0
