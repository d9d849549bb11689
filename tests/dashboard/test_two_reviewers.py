"""UI-07: fifty rounds of opposite decisions in the same moment, through the console's own door for writes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dashboard import session
from ledger import decisions
from ledger.records import Decision, Person, Role, Seen
from ledger.sign_in import people
from tests.dashboard.conftest import App
from tests.fix_seed import RECEIPT, House, mail

ROUNDS = 50
BACK = """
UPDATE nottwice.actions SET state = 'needs_review', review_since = now(), settled_at = NULL, version = version + 1
WHERE id = :id RETURNING version, content_digest
"""


class Reviewer:
    """One person's session: who acts here is its own, everything else is the console's."""

    def __init__(self, name: str, role: Role, decision: Decision, here: threading.local) -> None:
        given = lambda tx: people.person(tx, people.LOCAL, name, name, "", role)  # noqa: E731
        self.person: Person = session.house().database.run(given)
        self._decision, self._here = decision, here

    def press(self, send: int, seen: Seen, start: threading.Barrier) -> tuple[float, float, session.Result]:
        """Decide as the button does, when the other one does; from when to when that was."""
        self._here.person, pick = self.person, self._decision
        form = session.form_id(send, seen.version, pick, 0)
        start.wait(40)
        pressed_at = time.monotonic()
        result = session.act(
            decisions.WORDS[pick],
            send,
            lambda tx, act: decisions.settle(tx, send, seen, pick, act),
            form=form,
            why="I looked",
            looked_at=("Our own records",),
        )
        return pressed_at, time.monotonic(), result


def back_on_the_desk(house: House, send: int) -> Seen:
    row = house.db.run(lambda tx: tx.one(BACK, id=send))
    return Seen(row.version, bytes(row.content_digest))


def told(house: House, send: int, since: int) -> list[tuple[str, str, str]]:
    sql = """SELECT p.name, u.act, u.outcome FROM nottwice.audit u JOIN nottwice.people p ON p.id = u.person_id
             WHERE u.entity = 'action' AND u.entity_id = :id AND u.id > :since ORDER BY u.outcome"""
    return [tuple(row) for row in house.db.run(lambda tx: tx.all(sql, id=send, since=since))]


def last_entry(house: House) -> int:
    return int(house.db.run(lambda tx: tx.one("SELECT coalesce(max(id), 0) AS id FROM nottwice.audit")).id)


def test_ui_07_of_fifty_pairs_of_opposite_decisions_each_is_one_and_the_other_is_told(
    app: App, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    app("review")  # the console is up
    here = threading.local()
    monkeypatch.setattr(session, "me", lambda: here.person)
    ana = Reviewer("Ana Soto", Role.SUPPORT, Decision.WAS_SENT, here)
    bo = Reviewer("Bo Lindqvist", Role.ADMIN, Decision.DO_NOT_SEND, here)
    ends = {ana.person.name: ("closed as sent", "sent"), bo.person.name: ("closed without sending", "closed")}
    met = 0
    with ThreadPoolExecutor(2) as pool:
        for _ in range(ROUNDS):
            seen, since, start = back_on_the_desk(house, send), last_entry(house), threading.Barrier(2)
            presses = [pool.submit(one.press, send, seen, start) for one in (ana, bo)]
            (a_from, a_to, a), (b_from, b_to, b) = (press.result(40) for press in presses)
            met += a_from < b_to and b_from < a_to
            winner = ana if isinstance(a, session.Done) else bo
            lost, loser = (b, bo) if winner is ana else (a, ana)
            act, state = ends[winner.person.name]
            assert isinstance(lost, session.Lost), (a, b)
            assert (lost.who, lost.what) == (winner.person.name, act)
            assert told(house, send, since) == [
                (winner.person.name, act, "done"),
                (loser.person.name, ends[loser.person.name][0], "refused"),
            ]
            assert house.db.run(lambda tx: tx.one("SELECT state FROM nottwice.actions WHERE id = :id", id=send)).state == state  # fmt: skip
    assert met > 0, "they were to press at once"
