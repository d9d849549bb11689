"""Status events of providers, read in their published shapes, and worked beside a user's own handler in one commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agentmail import events as published

from ledger import inbox
from ledger.evidence.notices import Notice, What
from ledger.receiver import sources
from ledger.records import Delivery, Event, digest_of
from ledger.settings import Settings, load
from tests.fix_worker import WRITER, Notes, Workshop
from worker import notices
from worker.handlers import Handlers, RetryLater, SetAside
from worker.proposing import Propose

AT = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
ACCEPTED_AT = datetime(2026, 3, 1, 12, 1, tzinfo=UTC)
IDS = {
    "inbox_id": "support@acme.example",
    "thread_id": "thd_1",
    "message_id": "<m1@agentmail.example>",
    "timestamp": AT,
}

CONFIG = """
[sources.mail]
kind = "agentmail"
secrets = ["s"]
ignored_types = ["message.sent"]

[sources.receipts]
kind = "inboxili"
secrets = ["s"]
recipient_path = "data.to"
reference_path = "data.tags"
notices = { "email.bounce" = "bounced" }

[sources.shop]
kind = "generic"
secrets = ["s"]
signature_header = "X"
key_path = "id"
type_path = "type"

[providers.mail]
kind = "agentmail"
key = "k"
account = "org-1"

[providers.receipts]
kind = "inboxili"
key = "k"
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))

    def read(text: str = CONFIG) -> Settings:
        (tmp_path / "nottwice.toml").write_text(text)
        return load()

    return read


@pytest.fixture
def settings(configured: Callable[..., Settings]) -> Settings:
    return configured()


def event(body: bytes, type_: str, source: str = "mail") -> Event:
    return Event(7, "acme", source, type_, "k", body, ACCEPTED_AT, None)


def mail(made: Any) -> Event:
    """An event as AgentMail's own package spells it."""
    return event(made.model_dump_json().encode(), made.event_type)


def read(settings: Settings, given: Event) -> list[Notice]:
    account = notices.account_of(settings, given.source)
    assert account is not None
    return notices.read(given, settings.sources[given.source], account)


# ── AgentMail ─────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_delivered_bounced_complained_and_rejected(settings: Settings) -> None:
    two = ["ann@example.com", "bo@example.com"]
    delivery = published.Delivery(**IDS, recipients=two)
    bounce = published.Bounce(
        **IDS,
        type="Permanent",
        sub_type="General",
        recipients=[
            published.Recipient(address="ann@example.com", status="5.1.1"),
            published.Recipient(address="bo@example.com", status="4.2.2"),
        ],
    )
    complaint = published.Complaint(**IDS, type="abuse", sub_type="", recipients=two[:1])
    reject = published.Reject(**IDS, reason="Bad content")
    found = [
        read(settings, mail(published.MessageDeliveredEvent(event_id="e1", delivery=delivery))),
        read(settings, mail(published.MessageBouncedEvent(event_id="e2", bounce=bounce))),
        read(settings, mail(published.MessageComplainedEvent(event_id="e3", complaint=complaint))),
        read(settings, mail(published.MessageRejectedEvent(event_id="e4", reject=reject))),
    ]
    m = "<m1@agentmail.example>"
    assert found == [
        [Notice("org-1", m, What.DELIVERED, AT, ("ann@example.com", "bo@example.com"))],
        [
            Notice("org-1", m, What.BOUNCED, AT, ("ann@example.com",), "Permanent, General, 5.1.1"),
            Notice("org-1", m, What.BOUNCED, AT, ("bo@example.com",), "Permanent, General, 4.2.2"),
        ],
        [Notice("org-1", m, What.COMPLAINED, AT, ("ann@example.com",), "abuse")],
        [Notice("org-1", m, What.REJECTED, AT, (), "Bad content")],
    ]


def test_our_label_counts_where_it_is_sent_along(settings: Settings) -> None:
    body = {
        "send": {"message_id": "m", "labels": ["sent", "nt-0123456789abcdef"], "recipients": ["a@b.example"]}
    }
    (found,) = read(settings, event(json.dumps(body).encode(), "message.sent"))
    assert (found.reference, found.occurred_at) == ("nt-0123456789abcdef", ACCEPTED_AT)


# A mail server's own webhooks, or those of a gateway between: what each type means and where it stands is configuration.
RELAYED = """
[sources.relay]
kind = "{kind}"
secrets = ["s"]
signature_header = "X-Signature"
timestamp_header = "X-Time"
timestamp_unit = "s"
signed = "{{timestamp}}.{{body}}"
encoding = "hex"
algorithm = "sha256"
secret_form = "text"
key_path = "event.id"
type_path = "event.type"
provider = "post"
notices = {{ "mail.delivered" = "delivered", "mail.bounced" = "bounced" }}
message_path = "mail.message_id"
recipient_path = "mail.rcpt"
time_path = "event.at"
reference_path = "mail.tag"

[providers.post]
kind = "inboxili"
key = "k"
"""


@pytest.mark.parametrize("kind", ["generic", "mailera"])
def test_a_source_of_ones_own_tells_what_became_of_a_providers_mail(
    configured: Callable[..., Settings], kind: str
) -> None:
    settings = configured(RELAYED.format(kind=kind))
    assert sources.mistakes(settings) == []
    body = {
        "event": {"at": AT.isoformat()},
        "mail": {"message_id": "<m1@ours>", "rcpt": "ann@example.com", "tag": "nt-1"},
    }
    (found,) = read(settings, event(json.dumps(body).encode(), "mail.bounced", "relay"))
    assert found == Notice("post", "<m1@ours>", What.BOUNCED, AT, ("ann@example.com",), "", "nt-1")
    assert read(settings, event(b"{}", "mail.opened", "relay")) == []
    with pytest.raises(SetAside, match="no JSON"):
        read(settings, event(b"type=mail.bounced", "mail.bounced", "relay"))


HOSTILE: list[Any] = [
    {},
    [],
    {"bounce": None},
    {"bounce": {"message_id": ""}},
    {"bounce": {"message_id": " <> "}},
    {"bounce": {"message_id": ["m"]}},
    {"delivery": {"message_id": True}},
]


@pytest.mark.parametrize("document", HOSTILE, ids=range(len(HOSTILE)))
def test_what_names_no_message_is_set_aside(settings: Settings, document: Any) -> None:
    with pytest.raises(SetAside, match="names no message"):
        read(settings, event(json.dumps(document).encode(), "message.bounced"))


@pytest.mark.parametrize("recipients", [None, "a@b", {}, [None, 7, {"address": 7}, {"x": 1}, [[]]]])
def test_odd_recipients_lose_no_notice(settings: Settings, recipients: Any) -> None:
    body = {"bounce": {"message_id": "m", "recipients": recipients, "type": 5, "timestamp": "yesterday"}}
    (found,) = read(settings, event(json.dumps(body).encode(), "message.bounced"))
    assert (found.message_id, found.recipients, found.occurred_at) == ("m", (), ACCEPTED_AT)


# ── Inboxili ──────────────────────────────────────────────────────────────────────────────────────────


def test_inboxilis_parts_are_found_by_their_paths(settings: Settings) -> None:
    body = {
        "message_id": "m",
        "timestamp": "2026-03-01T12:00:05Z",
        "data": {"to": "a@b.example", "tags": "nt-1"},
    }
    (found,) = read(settings, event(json.dumps(body).encode(), "email.bounce", "receipts"))
    assert found == Notice("receipts", "m", What.BOUNCED, AT, ("a@b.example",), "", "nt-1")


# ── Whose notices, and beside whom ────────────────────────────────────────────────────────────────────


def test_which_types_are_read(settings: Settings) -> None:
    kinds = notices.add_to(Handlers(), settings).kinds
    expected = [("mail", f"message.{what}") for what in ("bounced", "complained", "delivered", "rejected")]
    assert list(kinds) == [*expected, ("receipts", "email.bounce")]


def test_an_account_is_the_named_one_or_the_only_one_of_its_kind(
    configured: Callable[..., Settings], notes: Notes
) -> None:
    more = CONFIG + '[providers.eu]\nkind = "agentmail"\nkey = "k"\n'
    unclear = configured(more)
    assert notices.account_of(unclear, "mail") is None
    assert [kind for kind in notices.add_to(Handlers(), unclear).kinds if kind[0] == "mail"] == []
    assert notes.of("notices not read", source="mail")
    named = configured(more.replace("[sources.mail]", '[sources.mail]\nprovider = "mail"'))
    assert notices.account_of(named, "mail") == "org-1"


def test_a_source_that_is_gone_from_the_configuration_waits(settings: Settings) -> None:
    given = event(b"{}", "message.bounced", "gone")
    with pytest.raises(RetryLater, match="not in the configuration"):
        notices.keep(None, given, Propose(None, given, settings))  # type: ignore[arg-type]


def test_a_type_that_means_nothing_any_more_is_done_without_a_notice(settings: Settings) -> None:
    assert read(settings, event(b"{}", "email.delivered", "receipts")) == []


HANDLERS = """
@handlers.apply("mail", "message.bounced")
def suppress(tx, event, propose):
    seen = tx.one("SELECT count(*) AS n FROM nottwice.notices WHERE event_id = :id", id=event.id).n
    tx.execute("INSERT INTO public.effects (what) VALUES (:w)", w=f"{event.type} {seen}")
    if event.json()["event_id"] == "bad":
        raise SetAside("not this one")
"""
MORE = """
[sources.mail]
kind = "agentmail"
secrets = ["s"]
provider = "post"

[providers.post]
kind = "agentmail"
key = "post-key"
timeout_s = 1.0
"""


def test_a_users_handler_runs_after_ours_in_one_commit(workshop: Workshop) -> None:
    """Its failure takes our notice back as well; a type it has no handler for is ours alone; both need no other."""

    def accept(type_: str, event_id: str) -> None:
        body = {"event_id": event_id, "bounce": {"message_id": f"<{event_id}>", "recipients": []}}
        raw = json.dumps(body).encode()
        item = Delivery("acme", "mail", type_, event_id, digest_of(event_id), raw, digest_of(raw))
        workshop.database.run(lambda tx: inbox.accept(tx, [item], writer=WRITER))

    for type_, event_id in (
        ("message.bounced", "good"),
        ("message.bounced", "bad"),
        ("message.complained", "alone"),
    ):
        accept(type_, event_id)
    workshop.start(HANDLERS, more=MORE)
    workshop.until("SELECT count(*) = 3 FROM nottwice.events WHERE state IN ('completed', 'failed')")
    assert workshop.states() == ["completed", "failed", "completed"]
    assert workshop.effects() == ["message.bounced 1"]
    kept = workshop.rows("SELECT message_id, what, account FROM nottwice.notices ORDER BY id")
    assert [tuple(row) for row in kept] == [("good", "bounced", "post"), ("alone", "complained", "post")]
