"""What can never be stored or never go out is refused when it is proposed, by one sentence, and its key stays free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import LedgerError, Misconfigured, Unproposable, UnusableKey
from ledger.records import Email, KindRules, Proposal
from ledger.sendable import problem
from ledger.settings import load
from tests.fix_application import EMAIL, Application

RULES = KindRules("welcome", "mail", "mail")
NEVER: dict[str, tuple[dict[str, Any], str]] = {
    "nobody": ({"to": ()}, "has no recipient"),
    "no address": ({"to": ("not an address",)}, r"recipient to\[0\] is not one"),
    "two in one": ({"to": ("a@example.com, b@example.com",)}, r"to\[0\] is not one"),
    "a bad copy": ({"cc": ("a@example.com", "b")}, r"cc\[1\] is not one"),
    "a bad answer": ({"reply_to": ("b",)}, r"reply_to\[0\] is not one"),
    "one text": ({"to": "a@example.com"}, "to takes a tuple of addresses, .* not one str"),
    "a list": ({"cc": ["a@example.com"]}, "cc takes a tuple of addresses, .* not one list"),
    "a number": ({"bcc": (7,)}, "bcc takes a tuple of addresses, .* with int"),
    "from nowhere": ({"inbox": None}, "AgentMail wants an inbox: give Email.inbox=…. or Email.sender=…."),
    "no sender": ({"inbox": None, "sender": "shop"}, "sender of this e-mail is not one e-mail address"),
    "only copies": ({"to": (), "bcc": ("a@example.com",)}, "AgentMail wants a recipient under `to`"),
}


@pytest.mark.parametrize("case", NEVER)
def test_an_e_mail_that_can_never_go_out_is_refused(case: str) -> None:
    members, sentence = NEVER[case]
    rules = replace(RULES, provider_kind="agentmail")
    with pytest.raises(Unproposable, match=f"{sentence}.*Nothing was proposed"):
        Proposal.of("acme", "welcome:1", rules, replace(EMAIL, **members))


KINDS: dict[str, tuple[Mapping[str, Any], Mapping[str, Any], str]] = {
    "inboxili": ({"sender": "Shop <s@a.example>"}, {"inbox": "s@a.example"}, "Inboxili wants a sender: give Email(sender=…)."),
    "agentmail": ({"inbox": "in-1"}, {"sender": ""}, "AgentMail wants an inbox: give Email(inbox=…) or Email(sender=…)."),
    "mailera": ({"sender": "s@a.example"}, {}, "Mailera wants an inbox: give Email(inbox=…) or Email(sender=…)."),
    "smtp": ({"inbox": "s@a.example"}, {}, "SMTP wants a sender: give Email(sender=…) or Email(inbox=…)."),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_says_what_it_wants(kind: str) -> None:
    fits, lacks, sentence = KINDS[kind]
    assert problem({"to": ["a@example.com"], **fits}, kind) is None
    assert problem({"to": ["a@example.com"], **lacks}, kind) == sentence
    assert problem({"to": ["a@example.com"], **lacks}, "") is None, "of no kind nothing is said"


def test_what_only_one_kind_cannot_do_is_said_of_it_alone() -> None:
    two = {"to": ["a@example.com", "b@example.com"], "sender": "s@a.example", "inbox": "in-1"}
    blind = {"bcc": ["a@example.com"], "sender": "s@a.example"}
    assert [kind for kind in KINDS if problem(two, kind)] == ["inboxili"]
    assert [kind for kind in KINDS if problem(blind, kind) is None] == ["smtp"]
    assert "wants one" in str(problem({"to": ["a@example.com"], "inbox": "in-1"}, "smtp"))


def test_a_mapping_needs_no_recipient() -> None:
    rules = replace(RULES, provider_kind="inboxili")
    assert Proposal.of("acme", "refund:1", rules, {"amount": 7}).recipients == ()
    with pytest.raises(Unproposable, match="recipients takes a tuple"):
        Proposal.of("acme", "refund:1", rules, {"amount": 7}, recipients="a@example.com")  # type: ignore[arg-type]


REFUSED: dict[str, tuple[dict[str, Any], type[LedgerError], str]] = {
    "an empty key": ({"key": ""}, UnusableKey, "key of a proposed action is empty"),
    "no key": ({"key": None}, UnusableKey, "not NoneType"),
    "an empty namespace": ({"namespace": ""}, Unproposable, "namespace of a proposed action is empty"),
    "no namespace": ({"namespace": None}, Unproposable, "namespace of a proposed action is empty"),
    "a time as text": ({"at": "2026-11-30T12:00:00Z"}, Unproposable, "at .* takes a datetime .* not str"),
    "an end as text": ({"send_before": "2026-11-30"}, Unproposable, "send_before .* takes a datetime"),
    "an unknown event": ({"event_id": 77}, Unproposable, "There is no event 77"),
    "no event": ({"event_id": "7"}, Unproposable, "event_id .* no event's number"),
    "an endless event": ({"event_id": 2**63}, Unproposable, "event_id .* no event's number"),
}


def test_whatever_an_application_gets_wrong_is_a_sentence_and_its_transaction_goes_on(
    application: Application,
) -> None:
    for connection in (application.psycopg(), application.sqlalchemy()):
        for given, error, sentence in REFUSED.values():
            with pytest.raises(error, match=sentence):
                application.propose(connection, **given)
        assert application.propose(connection).created
        connection.rollback()
    assert application.rows() == []


def test_an_event_that_there_is_may_be_named(application: Application) -> None:
    sql = """INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest)
             VALUES ('acme', 'shop', 'paid', 'k', sha256('k'), sha256('c')) RETURNING id"""
    event_id = application.database.run(lambda tx: tx.one(sql).id)
    connection = application.psycopg()
    assert application.propose(connection, event_id=event_id).created


def test_a_namespace_nearly_like_a_configured_one_is_a_slip(application: Application, tmp_path: Path) -> None:
    named = (
        tmp_path / "nottwice.toml"
    ).read_text() + "[retention.namespaces.acme]\n[retention.namespaces.tenant-1]\n"
    (tmp_path / "nottwice.toml").write_text(named)
    application.settings = load(tmp_path / "nottwice.toml")
    connection = application.psycopg()
    with pytest.raises(Misconfigured, match=r"'acm'; did you mean acme\? .*Nothing was proposed"):
        application.propose(connection, namespace="acm")
    assert application.propose(connection, namespace="acme").created
    assert application.propose(connection, namespace="globex").created, "one that is near to none is allowed"
    assert application.propose(connection, namespace="tenant-12").created, "another number is another tenant"
    with pytest.raises(Misconfigured, match=r"'tennant-12'; did you mean tenant-1\?"):
        application.propose(connection, namespace="tennant-12")


def test_a_key_that_another_kind_has_says_which_stands(application: Application) -> None:
    connection = application.psycopg()
    first = application.propose(connection, "shared")
    again = application.propose(connection, "shared", kind="answer")
    assert (first.kind, again.kind, again.created, again.state) == ("welcome", "welcome", False, "approved")


def test_an_e_mail_says_so_before_its_key_is_looked_at(application: Application) -> None:
    connection = application.psycopg()
    for to in ((), ("nobody",)):
        with pytest.raises(Unproposable):
            application.propose_email(connection, Email(to, "s", "t", inbox="in-1"))
    assert application.propose(connection).created, "the key was free"
