"""Each row of the outcome tables, over real HTTP, and what no row names."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.records import NotSent, Refused, Unknown
from tests.fix_sandbox import Sandbox
from tests.worker.calls import DEADLINE_S, EACH, SPELLING, action, outcome_at, provider_at
from worker.providers import agentmail, inboxili
from worker.providers.mailera_answers import rows

CODES = {"*": "some_code", "": None}
TABLES = {"agentmail": agentmail.TABLE, "inboxili": inboxili.TABLE, "mailera": rows(SPELLING)}
ROWS = [(kind, rule) for kind, table in TABLES.items() for rule in table]


@pytest.mark.parametrize(
    ("kind", "rule"), ROWS, ids=lambda p: p if isinstance(p, str) else f"{p.status}-{p.code}"
)
def test_each_row_of_the_table(sandbox: Sandbox, kind: str, rule: Any) -> None:
    code = CODES.get(rule.code, rule.code)
    fault = {"status": rule.status, "count": None} | (
        {"code": code} if code else {"body": "<h1>not an API</h1>"}
    )
    sandbox.faults(fault)
    outcome = outcome_at(kind, sandbox.url)
    assert type(outcome) is rule.outcome
    assert getattr(outcome, "pauses", False) is rule.pauses
    assert getattr(outcome, "code", "") == (code or "")
    assert len(sandbox.requests) == 1
    assert sandbox.mails == []


@EACH
@pytest.mark.parametrize(
    "status", [300, 301, 302, 303, 304, 307, 308, 402, 405, 410, 418, 501, 502, 504, 507, 599]
)
def test_what_no_row_names_is_unknown(sandbox: Sandbox, kind: str, status: int) -> None:
    sandbox.faults({"status": status, "count": None, "headers": {"Location": f"{sandbox.url}/sandbox/mails"}})
    assert isinstance(outcome_at(kind, sandbox.url), Unknown)
    assert len(sandbox.requests) == 1


SND_03 = {400: Refused, 413: Refused, 422: Refused, 401: NotSent, 403: NotSent}
BODIES = {
    "json": {
        "message": "ana@example.com is an inactive recipient",
        "error": {"message": "ana@example.com is inactive"},
    },
    "html": "<html><h1>No</h1></html>",
    "empty": "",
    "list": [],
    "text error": {"error": "a text, where the package wants an object", "message": 7, "code": ["x"]},
}


@EACH
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("status", SND_03)
def test_snd_03_refusals_are_known_whatever_their_body(
    sandbox: Sandbox, kind: str, status: int, body: str
) -> None:
    sandbox.faults({"status": status, "body": BODIES[body], "count": None})
    outcome = outcome_at(kind, sandbox.url)
    assert type(outcome) is SND_03[status]
    assert getattr(outcome, "pauses", False) is (status in (401, 403))
    if body == "json":
        assert "ana@example.com" in outcome.reason
    assert len(sandbox.requests) == 1


@EACH
def test_a_wrong_key_pauses_the_account(sandbox: Sandbox, kind: str) -> None:
    outcome = provider_at(kind, sandbox.url, "another").send(action(kind), DEADLINE_S)
    assert isinstance(outcome, NotSent)
    assert outcome.pauses
    assert outcome.code == "unauthorized"
    assert sandbox.mails == []
