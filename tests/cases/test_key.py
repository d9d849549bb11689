"""Cases from the field about the identity of an event, as bytes over HTTP against a real receiver: KEY."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from ledger.database import Database, Transaction
from ledger.kept import linked
from ledger.records import Act, Role
from ledger.sign_in import people
from ledger.views import event as views_event
from ledger.views import kept as views_kept
from ledger.views import linked as views_linked
from tests import fix_receiver as fix
from tests.cases.conftest import Work
from tests.fix_receiver import Door, until

T = TypeVar("T")
NO_ID: list[dict[str, Any]] = [{}, {"id": ""}, {"id": None}, {"id": "   "}]


def test_key_03_ten_events_without_an_id_never_become_one(door: Door) -> None:
    """The rule: without a usable id an event is quarantined with its bytes; 0 is an id like any other."""
    sent = [
        json.dumps({"type": type_, "text": f"{type_} {number}", **id_}).encode()
        for type_ in ("paid", "refunded")
        for number, id_ in enumerate([*NO_ID, {"id": 0}])
    ]
    assert [door.receiver.shop(body) for body in sent] == [202] * 10
    assert door.rows("SELECT event_key FROM nottwice.events ORDER BY 1") == [("paid 0",), ("refunded 0",)]
    kept = door.rows("SELECT body, reason, settled_at FROM nottwice.quarantine")
    assert {body for body, _, _ in kept} | set(door.bodies()) == set(sent)
    assert len(kept) == 8 and {row[1:] for row in kept} == {("It has no usable key.", None)}
    shown = _as_viewer(door, lambda tx: views_kept.quarantine(tx))
    assert [(one.source, one.reason) for one in shown] == [("shop", "It has no usable key.")] * 8


def test_key_03_the_same_from_a_header_and_from_a_fixed_path(door: Door) -> None:
    headers = fix.plain(b"{}")
    for number, event in enumerate((None, "", "   ", "0")):
        named = {name: value for name, value in headers.items() if name != "X-Event"}
        body = b'{"n":%d}' % number
        signed = named | {"X-Signature": fix.signature(body)} | ({} if event is None else {"X-Event": event})
        assert fix.quick_post(door.receiver.port, "plain", body, signed) == 200
    for number, id_ in enumerate(("", None, "   ")):
        assert door.receiver.mail(fix.message(id_, message_id=f"<{number}@x>")) == 200
    assert door.rows("SELECT event_key FROM nottwice.events") == [("note 0",)]
    assert door.count("quarantine") == 3 + 3


def _as_viewer(door: Door, look: Callable[[Transaction], T]) -> T:
    """What the console's screens are told."""
    database = Database(door.database_url, pool_size=1)
    try:
        return database.run(look, role=Role.VIEWER)
    finally:
        database.close()


def test_key_05_the_type_belongs_to_the_key(door: Door) -> None:
    events = [
        b'{"type":"Bounce","id":42,"message":"m-1"}',
        b'{"type":"SpamComplaint","id":42,"message":"m-1"}',
        b'{"type":"Delivery","message":"m-1"}',
    ]
    for _ in range(2):
        assert [door.receiver.shop(body) for body in events] == [202] * 3
    kept = door.rows("SELECT type FROM nottwice.events ORDER BY id")
    assert kept == [("Bounce",), ("SpamComplaint",)]
    assert door.rows("SELECT body, deliveries FROM nottwice.quarantine") == [(events[2], 2)]


def test_key_05_with_the_message_as_its_key_all_three_are_events(door: Door) -> None:
    events = [
        b'{"RecordType":"Bounce","ID":42,"MessageID":"m-1"}',
        b'{"RecordType":"SpamComplaint","ID":42,"MessageID":"m-1"}',
        b'{"RecordType":"Delivery","MessageID":"m-1"}',
    ]
    for _ in range(2):
        assert [_told(door, "by-message", body) for body in events] == [200] * 3
    kept = door.rows("SELECT type FROM nottwice.events ORDER BY id")
    assert kept == [("Bounce",), ("SpamComplaint",), ("Delivery",)]
    assert door.count("quarantine") == door.count("conflicts") == 0


def test_key_01_the_id_changes_on_every_retry(door: Door) -> None:
    """By what happened it is one event, and both deliveries' ids are known; by its id it is two, which people can see."""
    happened = {"event": "delivered", "recipient": "a@example.com", "message": "m-1", "at": 1_772_359_200}
    bodies = [json.dumps(happened | {"id": id_}).encode() for id_ in ("ev_A1", "ev_B2")]
    for number, body in enumerate(bodies):
        assert _told(door, "by-occurrence", body, X_Delivery=f"d{number}") == 200
        assert _told(door, "by-id", body) == 200
    kept = door.rows("SELECT source, count(*) FROM nottwice.events GROUP BY 1 ORDER BY 1")
    assert kept == [("by-id", 2), ("by-occurrence", 1)]
    assert door.rows("SELECT delivery_id FROM nottwice.events WHERE source = 'by-occurrence'") == [("d0",)]
    assert door.rows("SELECT delivery_id, body FROM nottwice.conflicts") == [("d1", bodies[1])]
    _and_a_person_links_the_two(door)


def _and_a_person_links_the_two(door: Door) -> None:
    first, later = (
        row[0] for row in door.rows("SELECT id FROM nottwice.events WHERE source = 'by-id' ORDER BY id")
    )
    database = Database(door.database_url, pool_size=1)
    try:
        ann = database.run(lambda tx: people.person(tx, "local", "ann", "Ann", "", Role.SUPPORT))
        act = Act(ann, uuid4(), "Its sender numbers each try anew.")
        database.run(lambda tx: linked.link(tx, later, first, act), role=Role.SUPPORT)
    finally:
        database.close()
    assert _as_viewer(door, lambda tx: views_linked.of_event(tx, first)).others == (later,)
    assert _as_viewer(door, lambda tx: views_linked.of_event(tx, later)) == ((first,), first)


def _told(door: Door, source: str, body: bytes, **headers: str) -> int:
    signed = {"X-Signature": fix.signature(body)} | {n.replace("_", "-"): v for n, v in headers.items()}
    return door.receiver.post(source, body, signed).status_code


REPLIES = """
import hashlib

def reply(tx, event, propose):
    message = event.json()["message"]
    key = hashlib.sha256(f"{len(message['inbox_id'])} {message['inbox_id']} {message['message_id']}".encode())
    email = Email(to=("sender@example.net",), subject="Re", text="Thanks", inbox=message["inbox_id"])
    propose("reply", f"reply:{key.hexdigest()}", email)

for source in ("mail", "elsewhere"):
    handlers.apply(source, "message.received")(reply)
"""


def test_key_07_one_mail_to_three_inboxes(door: Door, work: Work) -> None:
    work(REPLIES)
    for repeat in range(2):
        for source, inbox in (("mail", "a"), ("mail", "b"), ("elsewhere", "c")):
            body = fix.message(
                f"evt_{inbox}", message_id="<n1@example.net>", inbox_id=f"{inbox}@acme.example"
            )
            headers = fix.mail(body, svix_id=f"msg_{inbox}{repeat}")
            assert door.receiver.post(source, body, headers).status_code == 200
    until(lambda: door.rows("SELECT DISTINCT state FROM nottwice.events") == [("completed",)])
    assert door.rows("SELECT namespace, event_key FROM nottwice.events ORDER BY id") == [
        ("acme", "evt_a"),
        ("acme", "evt_b"),
        ("other", "evt_c"),
    ]
    assert door.rows("SELECT sum(deliveries) FROM nottwice.duplicates") == [(3,)]
    replies = door.rows(
        """SELECT a.namespace, CAST(convert_from(c.content, 'UTF8') AS json) ->> 'inbox'
           FROM nottwice.actions a JOIN nottwice.action_contents c ON c.action_id = a.id ORDER BY 2"""
    )
    assert replies == [("acme", "a@acme.example"), ("acme", "b@acme.example"), ("other", "c@acme.example")]


def test_key_09_the_attempt_is_not_the_event(door: Door) -> None:
    note = b'{"text":"hello"}'
    for event, attempt in (("e1", "d1"), ("e1", "d2"), ("e1", "d3"), ("e2", "d1")):
        headers = fix.timed(note, event, delivery=attempt)
        assert door.receiver.post("timed", note, headers).status_code == 204
    stored = door.rows("SELECT event_key, delivery_id FROM nottwice.events ORDER BY id")
    assert stored == [("note e1", "d1"), ("note e2", "d1")]
    assert _attempts(door, "note e1") == [("d1", 1), ("d2", 1), ("d3", 1)]
    assert _attempts(door, "note e2") == [("d1", 1)]
    again = door.receiver.post("timed", note, fix.timed(note, "e1", delivery="d2"))
    assert again.status_code == 204
    assert _attempts(door, "note e1") == [("d1", 1), ("d2", 2), ("d3", 1)]
    seen = door.rows(
        """SELECT d.delivery_id, last_seen_at > first_seen_at, first_seen_at > accepted_at
           FROM nottwice.duplicates d JOIN nottwice.events e ON e.id = event_id ORDER BY 1"""
    )
    assert seen == [("d2", True, True), ("d3", False, True)]
    first = door.rows("SELECT id FROM nottwice.events ORDER BY id LIMIT 1")[0][0]
    story = _as_viewer(door, lambda tx: views_event.story(tx, first))
    assert story is not None and (story.delivery_id, story.duplicates) == ("d1", 3)
    assert story.first_again_at is not None and story.last_again_at is not None
    assert story.accepted_at < story.first_again_at < story.last_again_at


def _attempts(door: Door, event_key: str) -> list[tuple[Any, ...]]:
    """The first delivery and the further ones, in the order in which they were first seen."""
    return door.rows(
        """SELECT delivery_id, deliveries FROM (
               SELECT delivery_id, 1 AS deliveries, accepted_at AS first_seen_at, id AS event_id FROM nottwice.events
               UNION ALL
               SELECT delivery_id, deliveries, first_seen_at, event_id FROM nottwice.duplicates) AS attempts
           WHERE event_id = (SELECT id FROM nottwice.events WHERE event_key = %s) ORDER BY first_seen_at""",
        event_key,
    )


@pytest.mark.parametrize("length", [2_600, 2_700, 4_000, 8_200, 300_000])
def test_key_12_a_very_long_id(door: Door, length: int) -> None:
    """Stored under its digest, the whole id beside it. Random, because a repeated letter would be compressed."""
    long_id = secrets.token_urlsafe(length)[:length]
    for _ in range(2):
        assert door.receiver.mail(fix.message(long_id, message_id=f"<{long_id}@example.com>")) == 200
        assert door.receiver.shop(json.dumps({"id": long_id, "type": "t"}).encode()) == 202
        assert door.receiver.shop(b'{"id":"short","type":"t"}') == 202
    kept = door.rows("SELECT source, event_key FROM nottwice.events ORDER BY id")
    assert kept == [("mail", long_id), ("shop", f"t {long_id}"), ("shop", "t short")]
    from_a_header = [door.receiver.plain(b"{}", long_id) for _ in range(2)]
    assert from_a_header == [200 if length < 60_000 else 431] * 2
    assert door.receiver.shop(b'{"id":"next","type":"t"}') == 202
