"""The failure table's row on webhooks about a send, with real processes: sandbox provider, receiver, worker."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from ledger.simulated import examples, simulate
from tests.failures.house import CONFIG, WITHIN_S, House, event, until

SOURCES = """
[sources.agentmail]
kind = "agentmail"
namespace = "acme"
secrets = ["agentmail-hook"]

[sources.inboxili]
kind = "inboxili"
namespace = "acme"
secrets = ["inboxili-hook"]
"""
SECRETS = {
    "NOTTWICE_SECRET_AGENTMAIL_HOOK": "whsec_bm90IHR3aWNlLCBhIHRlc3QncyBrZXk=",
    "NOTTWICE_SECRET_INBOXILI_HOOK": "inboxili's own secret",
}
# A key that is never safe to use again: what is unknown goes to a person at once, as after the key's window.
NO_KEY_PROTECTS = ("window_s = 86400", "window_s = 30\nmargin_s = 30")
NO_LOOK_UPS = ("[worker]", "[worker]\nlook_waits_s = [3600]")  # the webhook shall be the only one that knows
CALM = {"early": 0, "late": 0, "lost": 0, "bounced": 0, "complained": 0, "pace": 0}


@pytest.fixture
def telling(chain: House, monkeypatch: pytest.MonkeyPatch) -> House:
    """A house whose sandbox keeps its webhooks until it is told to post them."""
    chain.environment |= SECRETS
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    config = CONFIG.replace(*NO_KEY_PROTECTS).replace(*NO_LOOK_UPS)
    (chain.home / "house.toml").write_text(config + SOURCES)
    chain.sandbox()
    webhooks(chain, "PUT", CALM | {"mode": "hold", "echo": True})
    chain.receiver()
    return chain


def webhooks(chain: House, method: str, body: dict[str, Any] | None = None) -> None:
    url = f"http://127.0.0.1:{chain.environment['NOTTWICE_SANDBOX_PORT']}/sandbox/webhooks"
    request = urllib.request.Request(url, json.dumps(body or {}).encode(), method=method)
    urllib.request.urlopen(request, timeout=WITHIN_S).close()


def evidence(chain: House, key: str) -> list[tuple[Any, ...]]:
    sql = """SELECT e.points_to, e.proof, e.message_id FROM nottwice.evidence e JOIN nottwice.actions a ON a.id = e.action_id
             WHERE a.action_key LIKE '%' || :key ORDER BY e.id"""
    return [tuple(row) for row in chain.rows(sql, key=key)]


def test_an_unknown_send_then_a_delivered_webhook_for_it(telling: House) -> None:
    """Settled as sent where the provider sends our mark back; else it waits, with the webhook as a hint. No second e-mail."""
    telling.faults({"status": 503, "accept": True, "count": None})
    telling.worker()
    answered, receipted = event("message.received"), event("invoice.paid")
    for _, body in (answered, receipted):
        assert telling.post(body) == 200
    for key, _ in (answered, receipted):
        until(lambda: telling.action_state(key) == "needs_review")  # noqa: B023
    assert evidence(telling, answered[0]) == evidence(telling, receipted[0]) == []

    webhooks(telling, "POST")
    until(lambda: telling.action_state(answered[0]) == "sent")
    until(lambda: evidence(telling, receipted[0]))
    ours, theirs = (
        m["message_id"].strip("<>") for m in sorted(telling.mails() or [], key=lambda m: m["provider"])
    )
    assert evidence(telling, answered[0])[0] == ("sent", True, ours)
    assert evidence(telling, receipted[0]) == [("sent", False, theirs)]
    assert telling.action_state(receipted[0]) == "needs_review"
    assert len(telling.mails() or []) == len(telling.requests() or []) == 2
    until(lambda: telling.value("SELECT bool_and(state = 'completed') FROM nottwice.events"))


def test_a_webhook_before_the_answer_of_its_send(telling: House) -> None:
    """Before the API answered, and before the worker had written anything down: it is this send's, not a stranger's."""
    webhooks(telling, "PUT", {"mode": "on", "early": 1, "echo": False})
    telling.worker()
    keys = [event("invoice.paid") for _ in range(3)]
    for _, body in keys:
        assert telling.post(body) == 200
    for key, _ in keys:
        until(lambda: telling.action_state(key) == "sent")  # noqa: B023
    known = "SELECT count(*) FROM nottwice.noticed WHERE what = 'delivered' AND action_id IS NOT NULL"
    until(lambda: telling.value(known) == 3)
    assert telling.value("SELECT json_agg(e) FROM nottwice.evidence e") is None
    assert len(telling.mails() or []) == 3


def test_inb_11_webhooks_about_mail_that_somebody_else_sent(telling: House) -> None:
    """Every copy gets its 2xx; none is tried again; the one about our own send is applied among them."""
    webhooks(telling, "PUT", {"mode": "off"})
    telling.worker()
    key, body = event("invoice.paid")
    assert telling.post(body) == 200
    until(lambda: telling.action_state(key) == "sent")
    ours = (telling.mails() or [])[0]["message_id"]
    settings = telling.settings
    source, kinds = settings.sources["inboxili"], ("delivered", "bounced")
    told = [
        examples.inboxili_notice(source, kinds[n % 2], f"<theirs-{n}@example.com>", f"x{n}@example.com")
        for n in range(20)
    ]
    told.append(examples.inboxili_notice(source, "bounced", ours, "payer@example.com"))
    assert set(simulate.post_all(settings, "inboxili", told * 8)) == {200}
    until(lambda: telling.value("SELECT bool_and(state = 'completed') FROM nottwice.events"))
    assert telling.value("SELECT count(*) FROM nottwice.events") == 22
    assert telling.value("SELECT max(attempts) FROM nottwice.events") == 1
    about = telling.rows(
        "SELECT action_id, count(*) AS n FROM nottwice.noticed GROUP BY action_id ORDER BY n"
    )
    assert [row.n for row in about] == [1, 20]
    assert about[0].action_id is not None and about[1].action_id is None
    assert telling.action_state(key) == "sent"
    assert len(telling.mails() or []) == 1
