"""What must hold when lives have come to an end, whatever struck them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.events import recovery
from tests.failures.ground import LEASE_S, SWEEP_S, Ground, Life
from tests.failures.house import until

SLACK_S = 20.0  # of a busy machine


def everything_holds(ground: Ground, lives: Sequence[Life]) -> None:
    """Nothing stays stuck; each event was worked once; each e-mail went out once, or a person is asked."""
    until(lambda: ground.nothing_is_held(lives), within_s=LEASE_S + SWEEP_S + SLACK_S)
    ground.take_over(lives)
    all_ended_well(ground, lives)


def all_ended_well(ground: Ground, lives: Sequence[Life]) -> None:
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
