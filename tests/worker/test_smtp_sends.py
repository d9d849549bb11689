"""What the ledger makes of SMTP: no key protects it, so what is unknown is a person's, and nothing goes out twice."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import actions
from ledger.records import Email, KindRules, Policy, Proposal
from ledger.settings.providers import ProviderSettings
from tests.fix_sandbox import Sandbox
from tests.fix_sender import Senders, pump_until, state_of
from tests.fix_worker import Workshop
from worker.providers.smtp import Smtp

MAIL = Email(to=("ana@example.com", "bo@example.com"), subject="S", text="T", sender="shop@example.com")


@pytest.fixture
def post(sandbox: Sandbox) -> Smtp:
    table = ProviderSettings(
        kind="smtp", base_url=sandbox.mail_url, security="plain", user="acme", key="k", timeout_s=20
    )
    return Smtp("post", table, "post-key")


def proposed(workshop: Workshop, policy: Policy = Policy.REVIEW) -> int:
    proposal = Proposal(
        "acme", "receipt:1", KindRules("receipt", "post", "post", policy), MAIL.content(), MAIL.to
    )
    return workshop.database.run(lambda tx: actions.propose(tx, proposal)).action_id


def tries(workshop: Workshop) -> list[Any]:
    return workshop.rows(
        "SELECT outcome, reason, message_id, sent_as FROM nottwice.action_attempts ORDER BY id"
    )


def test_what_was_handed_over_and_not_answered_is_a_persons(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, post: Smtp
) -> None:
    sandbox.faults({"provider": "smtp", "cut": True, "accept": True})
    action = proposed(workshop)
    pump_until(senders(post), lambda: state_of(workshop, action) == "needs_review")
    (only,) = tries(workshop)
    (mail,) = sandbox.mails
    assert only.outcome == "unknown"
    assert only.sent_as == mail["message_id"] and mail["message_id"] in only.reason


def test_rather_twice_than_not_at_all_is_twice_at_most(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, post: Smtp
) -> None:
    sandbox.faults({"provider": "smtp", "cut": True, "accept": True, "count": None})
    action = proposed(workshop, Policy.RESEND)
    sender = senders(post)

    def is_settled() -> bool:
        workshop.run("UPDATE nottwice.actions SET due_at = now() WHERE state = 'approved'")
        return state_of(workshop, action) == "needs_review"

    pump_until(sender, is_settled)
    assert [one.outcome for one in tries(workshop)] == ["unknown", "unknown"]
    assert len(sandbox.mails) == 2
    assert (
        len({mail["body_digest"] for mail in sandbox.mails}) == 1
    )  # for the reader's own program they are one


def test_what_was_given_back_is_tried_again_with_the_same_bytes(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, post: Smtp
) -> None:
    sandbox.faults({"provider": "smtp", "status": 451}, {"provider": "smtp", "at": "data", "cut": True})
    action = proposed(workshop)

    def is_sent() -> bool:
        workshop.run("UPDATE nottwice.actions SET due_at = now() WHERE state = 'approved'")
        return state_of(workshop, action) == "sent"

    pump_until(senders(post), is_sent)
    assert [one.outcome for one in tries(workshop)] == ["not_sent", "not_sent", "accepted"]
    _, given_back, last = sandbox.requests  # the first came as far as DATA
    assert given_back["body_digest"] == last["body_digest"]
    assert tries(workshop)[-1].message_id == sandbox.mails[0]["message_id"]


def test_who_was_refused_stands_on_the_attempt(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, post: Smtp
) -> None:
    sandbox.faults({"provider": "smtp", "at": "rcpt", "match": "bo@", "status": 550})
    action = proposed(workshop)
    pump_until(senders(post), lambda: state_of(workshop, action) == "sent")
    assert "refused were number 2 of 2 (550)" in tries(workshop)[0].reason
    assert sandbox.mails[0]["recipients"] == ["ana@example.com"]
