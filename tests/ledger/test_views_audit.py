"""The record as it is read: pages, filters, and who may see what."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import audit, decisions
from ledger.audit import choice as audit_choice
from ledger.audit import seals
from ledger.audit.choice import ALL, POLICY, Chosen
from ledger.errors import NotAllowed
from ledger.records import Decision, Person, Role
from ledger.views import audit as views_audit
from ledger.views.audit import Entry, Page
from tests.fix_sends import Sends
from tests.ledger.test_seals import entries

POLICY_ENTRY = "INSERT INTO nottwice.audit (role, act, entity, entity_id, outcome) VALUES ('policy', 'dropped', 'action', 9, 'refused')"


def read(sends: Sends, who: Person, chosen: Chosen = ALL, **more: object) -> Page:
    return sends.by_console.run(
        lambda tx: views_audit.entries(tx, who, chosen, **more),  # type: ignore[arg-type]
        role=who.role,
    )


def one(sends: Sends, who: Person, audit_id: int) -> Entry | None:
    return sends.by_console.run(lambda tx: views_audit.entry(tx, who, audit_id), role=who.role)


def auditor(sends: Sends) -> Person:
    return sends.person("Eve", Role.AUDITOR)


def test_pages_follow_each_other_newest_first(sends: Sends) -> None:
    ids, eve = entries(sends, 5), auditor(sends)
    first = read(sends, eve, most=2)
    second = read(sends, eve, after=first.onwards, most=2)
    last = read(sends, eve, after=second.onwards, most=2)
    assert [e.id for page in (first, second, last) for e in page.entries] == ids[::-1]
    assert last.onwards is None and last.looked_to is None


def test_an_entry_tells_what_was_done_to_what(sends: Sends) -> None:
    send, ann = sends.uncertain(), sends.person("Ann")
    act, seen = sends.act(ann, "It came back", "Our own records"), sends.seen(send)
    sends.decide(act, lambda tx: decisions.settle(tx, send, seen, Decision.DO_NOT_SEND, act))
    sends.by_worker.run(seals.seal)
    (entry,) = read(sends, auditor(sends)).entries
    assert (entry.who, entry.role, entry.act, entry.outcome) == (
        "Ann",
        "support",
        "closed without sending",
        "done",
    )
    assert (entry.entity, entry.entity_id, entry.about.split()[0]) == ("action", send, "receipt")
    assert (entry.state_before, entry.state_after) == ("needs_review", "closed")
    assert entry.known.startswith("nobody_knows: A request went to inboxili at ")
    assert (entry.why, entry.looked_at) == ("It came back", ("Our own records",))
    assert entry.sequence == 1 and one(sends, auditor(sends), entry.id) == entry
    assert entry.hash == seals.link(seals.GENESIS, sends.rows("SELECT * FROM nottwice.audit")[0])


def test_everything_that_can_be_asked_for(sends: Sends) -> None:
    ids, eve = entries(sends, 4), auditor(sends)
    sends.sql(POLICY_ENTRY)
    other = sends.act(sends.person("Bo", Role.ADMIN))
    sends.decide(other, lambda tx: audit.failed(tx, other, "look", "event", 3, "no"))
    every = read(sends, eve).entries
    ann, bo = every[-1].person_id, other.person.id
    middle = every[-2].at
    for chosen, found in (
        (Chosen(person=ann), ids[::-1]),
        (Chosen(person=bo), [every[0].id]),
        (Chosen(person=POLICY), [every[1].id]),
        (Chosen(act="try"), ids[::-1]),
        (Chosen(act="try", person=bo), []),
        (Chosen(entity="event"), [every[0].id]),
        (Chosen(entity="action", entity_id=2), [ids[1]]),
        (Chosen(entity="event", entity_id=2), []),
        (Chosen(outcome="failed"), [every[0].id]),
        (Chosen(outcome="done"), []),
        (Chosen(since=middle), [e.id for e in every[:-1]]),
        (Chosen(until=middle), [ids[0]]),
        (Chosen(since=middle, until=middle + timedelta(microseconds=1)), [ids[1]]),
    ):
        assert [e.id for e in read(sends, eve, chosen).entries] == found, chosen


def test_what_is_rare_is_looked_for_a_window_at_a_time(sends: Sends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_choice, "WINDOW", 3)
    eve = auditor(sends)
    sends.sql(POLICY_ENTRY)
    entries(sends, 4)
    first = read(sends, eve, Chosen(entity="event"))
    assert first.entries == () and first.looked_to is not None and first.onwards is not None
    second = read(sends, eve, Chosen(entity="event"), after=first.onwards)
    assert (second.entries, second.onwards, second.looked_to) == ((), None, None)


def test_support_sees_its_own_acts_only(sends: Sends) -> None:
    ids, bo = entries(sends, 2), sends.act(sends.person("Bo"))
    sends.decide(bo, lambda tx: audit.refused(tx, bo, "try", "action", 1, "no"))
    ann = sends.person("Ann")
    assert [e.id for e in read(sends, ann).entries] == ids[::-1]
    assert [e.id for e in read(sends, ann, Chosen(person=bo.person.id)).entries] == ids[::-1]
    assert one(sends, ann, ids[0]) is not None and one(sends, ann, ids[1] + 1) is None
    assert one(sends, ann, 10**15) is None


def test_viewers_see_nothing_of_it(sends: Sends) -> None:
    (id_,) = entries(sends, 1)
    vi = sends.person("Vi", Role.VIEWER)
    for look in (lambda: read(sends, vi), lambda: one(sends, vi, id_)):
        with pytest.raises(NotAllowed):
            look()
    for role in (Role.ENGINEER, Role.AUDITOR, Role.ADMIN):
        assert len(read(sends, sends.person(role.value, role)).entries) == 1


def test_counting_stops_where_it_is_told_to(sends: Sends) -> None:
    entries(sends, 4)
    for most, n in ((10, 4), (4, 4), (2, 3)):
        assert sends.by_owner.run(lambda tx, most=most: views_audit.count(tx, Chosen(), most=most)) == n  # type: ignore[misc]


def test_who_and_what_there_is_to_choose_from(sends: Sends) -> None:
    sends.person("Nobody yet")
    entries(sends, 2)
    sends.sql(POLICY_ENTRY)
    assert list(sends.by_owner.run(views_audit.people).values()) == ["Ann"]
    assert sends.by_owner.run(views_audit.acts) == ["dropped", "try"]
    assert sends.by_owner.run(views_audit.standing).sealed == 0
    sends.by_worker.run(seals.seal)
    assert sends.by_owner.run(views_audit.standing).sealed == 3
