"""What strangers wrote stays what it is: one line, one address, or nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledger.records import Accepted, Refused
from tests.fix_sandbox import RawServer, Sandbox, Script
from tests.worker.calls import DEADLINE_S, EACH, GOOD, action, answer, provider_at, recorded

HOSTILE_SUBJECTS = {
    "=?utf-8?q?hi=0D=0ABcc=3A_x=40example=2Eorg?=": "hi Bcc: x@example.org",
    "hi\r\nBcc: x@example.org": "hi Bcc: x@example.org",
    "a\u2028b\u2029c\x0bd\x00e\x85f": "a b c d e f",
    "=?no-such-charset?q?x?=": "=?no-such-charset?q?x?=",
    "=?utf-8?b?!!?=": None,
    "日本 🎉": "日本 🎉",
    "x" * 5000: "x" * 998,
}


@EACH
@pytest.mark.parametrize("subject", HOSTILE_SUBJECTS, ids=range(len(HOSTILE_SUBJECTS)))
def test_msg_06_a_subject_is_one_line(
    raw_server: Callable[[Script], RawServer], kind: str, subject: str
) -> None:
    server = raw_server(answer(GOOD.decode()))
    outcome = provider_at(kind, server.url).send(action(kind, subject=subject), DEADLINE_S)
    assert isinstance(outcome, Accepted)
    _, headers, body = recorded(server)
    sent = body["subject"]
    assert sent.isprintable()
    assert sent == (HOSTILE_SUBJECTS[subject] or sent)
    assert "bcc" not in {*headers, *body}


HOSTILE_NAMES = {
    "Ana\nBcc: <x@example.org> <ana@example.com>": '"Ana Bcc: <x@example.org>" <ana@example.com>',
    "Ana, Bo <ana@example.com>": '"Ana, Bo" <ana@example.com>',
    '"Ana, Bo" <ana@example.com>': '"Ana, Bo" <ana@example.com>',
    'A "B" <ana@example.com>': '"A \\"B\\"" <ana@example.com>',
    "Søren Holm <ana@example.com>": "Søren Holm <ana@example.com>",
    "ana@example.com": "ana@example.com",
}


@EACH
@pytest.mark.parametrize("written", HOSTILE_NAMES)
def test_msg_06_a_name_makes_no_second_recipient(
    raw_server: Callable[[Script], RawServer], kind: str, written: str
) -> None:
    server = raw_server(answer(GOOD.decode()))
    provider_at(kind, server.url).send(action(kind, to=[written]), DEADLINE_S)
    to = recorded(server)[2]["to"]
    assert to == (HOSTILE_NAMES[written] if kind == "inboxili" else [HOSTILE_NAMES[written]])


UNSENDABLE: dict[str, dict[str, Any]] = {
    "nobody": {"to": []},
    "no address": {"to": ["Ana Soto"]},
    "two in one": {"to": ["ana@example.com, bo@example.com"]},
    "a line break": {"to": ["ana@example.com\nbo@example.com"]},
    "an open bracket": {"to": ["Ana <ana@example.com"]},
    "no sender": {"sender": ""},
    "no object": {"to": [["ana@example.com"]]},
}


@EACH
@pytest.mark.parametrize("case", UNSENDABLE)
def test_what_cannot_be_sent_is_refused_without_a_call(sandbox: Sandbox, kind: str, case: str) -> None:
    outcome = provider_at(kind, sandbox.url).send(action(kind, **UNSENDABLE[case]), DEADLINE_S)
    assert isinstance(outcome, Refused)
    assert outcome.code == "unsendable"
    assert sandbox.requests == []
    assert ("sender" in outcome.reason) == (case == "no sender"), (
        "it is the sender that is missing, no recipient"
    )
