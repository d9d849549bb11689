"""The failure table's row on keys: the ledger's content never changes, so a 409 about it is somebody else's doing."""

from __future__ import annotations

import pytest

from ledger import actions, judging
from ledger.check import Level, findings
from ledger.records import Email, KindRules, Proposal
from ledger.settings import AlertSettings
from tests.fix_sandbox import Sandbox
from tests.fix_sender import LEASE_S, Senders, pump_until, state_of
from tests.fix_worker import WITHIN_S, Workshop
from worker import providers

POST = """
[providers.post]
kind = "{kind}"
base_url = "{url}"
key = "post-key"
timeout_s = 40.0
"""
PATHS = {
    "agentmail": "/v0/inboxes/s%40acme.example/messages/send",
    "mailera": "/mailboxes/s%40acme.example/send",
}
KEYS = {"agentmail": "am-key", "mailera": "ml-key"}
OTHER = {"to": ["bo@example.com"], "subject": "Another", "text": "Not ours."}
SPELLED = 'spelling = { in_flight = ["409:key_in_use"], mismatch = ["409:key_reused"] }\n'


@pytest.mark.parametrize(
    ("kind", "more", "tries"),
    [("agentmail", "", 5), ("mailera", "", 5), ("mailera", SPELLED, 1)],
    ids=["agentmail", "mailera", "mailera, told apart"],
)
def test_the_same_key_sent_with_other_content_becomes_an_alarm_never_a_loop(
    workshop: Workshop,
    sandbox: Sandbox,
    senders: Senders,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    more: str,
    tries: int,
) -> None:
    """Somebody uses our key first. Where a provider has one word for that and for a key under way, five are an alarm."""
    monkeypatch.setenv("NOTTWICE_SECRET_POST_KEY", KEYS[kind])
    email = Email(("ada@example.com",), "Receipt", "Paid.", inbox="s@acme.example", sender="s@acme.example")
    rules = KindRules("receipt", "post", "post", key_window_s=86_400.0)
    proposal = Proposal("acme", "receipt:1", rules, email.content(), email.to)
    action = workshop.database.run(lambda tx: actions.propose(tx, proposal)).action_id
    key = workshop.value("SELECT provider_key FROM nottwice.actions")
    headers = {"Idempotency-Key": key, "Authorization": f"Bearer {KEYS[kind]}"}
    sandbox.http.post(PATHS[kind], json=OTHER, headers=headers).raise_for_status()
    table = POST.format(kind=kind, url=sandbox.url) + more
    settings = workshop.settings(more=table, worker="send_retry_base_s = 0.01", lease_s=LEASE_S)
    sender = senders()
    sender.use(settings, providers.build_all(settings))
    pump_until(sender, lambda: state_of(workshop, action) == "needs_review")
    pump_until(sender, lambda: sender.calls == 0, WITHIN_S)
    assert sender.pump() == 0
    assert len(sandbox.requests) == 1 + tries and len(sandbox.mails) == 1
    assert len({r["body_digest"] for r in sandbox.requests[1:]}) == 1
    found = workshop.database.run(lambda tx: judging.finding(tx, judging.lock(tx, action)))
    assert "other content" in " ".join(found.reasons)
    said = workshop.database.run(lambda tx: findings(tx, AlertSettings()))
    (alarm,) = [one for one in said if "came with other content" in one.what]
    assert alarm.level is Level.CRITICAL and alarm.what.startswith("post says of 1 uncertain sends")
