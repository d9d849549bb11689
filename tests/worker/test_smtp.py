"""SMTP step by step: each row of its table against the sandbox, and servers that break the rules."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ledger.database import Database
from ledger.errors import CallInsideTransaction
from ledger.records import Accepted, CannotBeAsked, ClaimedAction, LookUp, NotSent, Outcome, Refused, Unknown
from ledger.settings.providers import ProviderSettings
from tests.fix_sandbox import Sandbox, claimed, until
from tests.worker.calls import RECEIPT, drips, full_backlog, reset
from tests.worker.mail_servers import EHLO, OddServer, certificate
from worker.providers.smtp import Smtp
from worker.providers.smtp_answers import LOST, TABLE, Row
from worker.sandbox.faults import Faults
from worker.sandbox.post import Post
from worker.sandbox.store import Store

DEADLINE_S = 40.0
AT = {"greeting": "connect", "MAIL": "mail", "RCPT": "rcpt", "DATA": "data"}
OURS = "<nt-0123456789abcdef@example.com>"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def server(url: str, password: str = "", **more: Any) -> Smtp:
    given = {"security": "plain"} | ({"user": "acme", "key": "k"} if password else {}) | more
    return Smtp("smtp", ProviderSettings(kind="smtp", base_url=url, **given), password)  # type: ignore[arg-type]


def action(**changes: Any) -> ClaimedAction:
    return replace(claimed(RECEIPT.content() | changes), created_at=NOW)


def sent_to(url: str, deadline_s: float = DEADLINE_S, password: str = "", **more: Any) -> Outcome:
    return server(url, password, **more).send(action(), deadline_s)


# ── The table, row by row ─────────────────────────────────────────────────────────────────────────────


def fault_of(row: Row) -> dict[str, Any]:
    """What makes the sandbox end a conversation as the row says."""
    code = {"4": 450, "5": 550}.get(row.ends) or (int(row.ends) if row.ends != LOST else 0)
    strikes = {"cut": True} if row.ends == LOST else {"status": code}
    return {"provider": "smtp", "at": AT.get(row.step, row.step), "count": None} | strikes


@pytest.mark.parametrize("row", [r for r in TABLE if r.step != "connect"], ids=lambda r: f"{r.step}-{r.ends}")
def test_each_row_of_the_table(sandbox: Sandbox, row: Row) -> None:
    sandbox.faults(fault_of(row))
    security = "starttls" if row.step == "tls" else "plain"
    outcome = sent_to(sandbox.mail_url, password="post-key", security=security)
    assert type(outcome) is row.outcome
    assert (getattr(outcome, "pauses", False), getattr(outcome, "by_settings", False)) == (
        row.pauses,
        row.by_settings,
    )
    assert getattr(outcome, "code", "").startswith(row.step)
    assert sandbox.mails == []


def test_a_connection_that_never_stood_is_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"smtp://127.0.0.1:{listener.getsockname()[1]}"
    with full_backlog() as address:
        never = sent_to(address.replace("http", "smtp"), 0.6)
    for outcome in (sent_to(url), never, sent_to("smtp://nowhere.invalid", unencrypted=True)):
        assert isinstance(outcome, NotSent) and outcome.pauses


def test_every_step_after_354_that_breaks_is_unknown_and_says_where_to_look(sandbox: Sandbox) -> None:
    for fault in ({"at": "body", "cut": True}, {"cut": True, "accept": True}, {"cut": True}):
        sandbox.faults({"provider": "smtp"} | fault)
        outcome = sent_to(sandbox.mail_url, password="post-key")
        assert isinstance(outcome, Unknown)
        assert OURS in outcome.reason and outcome.sent_as == OURS
    assert len(sandbox.mails) == 1  # the second went out


def test_an_answer_to_the_dot_that_takes_too_long_is_unknown(sandbox: Sandbox) -> None:
    sandbox.faults({"provider": "smtp", "accept_then_silence": True})
    outcome = sent_to(sandbox.mail_url, 0.7, password="post-key")
    assert isinstance(outcome, Unknown)
    (mail,) = sandbox.mails
    assert mail["message_id"] == OURS


# ── Accepted ──────────────────────────────────────────────────────────────────────────────────────────


def test_accepted_under_our_own_message_id(sandbox: Sandbox) -> None:
    outcome = sent_to(sandbox.mail_url, password="post-key")
    (mail,) = sandbox.mails
    (request,) = sandbox.requests
    assert isinstance(outcome, Accepted)
    assert outcome.message_id == mail["message_id"] == OURS
    assert "queued as" in outcome.note  # by which its log can be searched, too
    assert (mail["recipients"], mail["sender"], mail["subject"]) == (
        ["ana@example.com"],
        "shop@example.com",
        "Your receipt",
    )
    assert (mail["provider"], mail["idempotency_key"]) == ("smtp", None)
    assert mail["body_digest"] == request["body_digest"]


def test_every_attempt_sends_the_same_bytes(sandbox: Sandbox) -> None:
    sandbox.faults({"provider": "smtp", "status": 451}, {"provider": "smtp", "cut": True})
    outcomes = [sent_to(sandbox.mail_url, password="post-key") for _ in range(3)]
    assert [type(one) for one in outcomes] == [NotSent, Unknown, Accepted]
    assert len({request["body_digest"] for request in sandbox.requests}) == 1


def test_it_goes_to_the_others_where_some_are_refused(sandbox: Sandbox) -> None:
    sandbox.faults({"provider": "smtp", "at": "rcpt", "match": "bo@", "status": 550})
    several = action(to=["ana@example.com", "bo@example.com"], bcc=["cy@example.com"])
    outcome = server(sandbox.mail_url, "post-key").send(several, DEADLINE_S)
    (mail,) = sandbox.mails
    assert mail["recipients"] == ["ana@example.com", "cy@example.com"]
    assert isinstance(outcome, Accepted)
    assert "It went to the others; refused were number 2 of 3 (550)" in outcome.note


def test_one_recipient_that_may_yet_be_taken_is_tried_again(sandbox: Sandbox) -> None:
    """All are refused, one of them for now: a repeat sends to it, and is no second copy for anybody."""
    sandbox.faults(
        {"provider": "smtp", "at": "rcpt", "match": "ana@", "status": 550},
        {"provider": "smtp", "at": "rcpt", "match": "bo@", "status": 450},
    )
    outcome = server(sandbox.mail_url, "post-key").send(
        action(to=["ana@example.com", "bo@example.com"]), DEADLINE_S
    )
    assert isinstance(outcome, NotSent) and not outcome.pauses
    assert sandbox.mails == []


def test_it_cannot_be_asked_but_says_what_to_search_for() -> None:
    lookup = LookUp(1, 1, uuid4(), "smtp", "smtp", "nt-0123456789abcdef", action().content, NOW, NOW)
    looked = server("smtp://127.0.0.1").look_up(lookup, DEADLINE_S)
    assert isinstance(looked, CannotBeAsked) and OURS in looked.reason


# ── Signing in, and TLS ───────────────────────────────────────────────────────────────────────────────


def test_a_wrong_password_pauses_and_is_not_told(sandbox: Sandbox) -> None:
    outcome = sent_to(sandbox.mail_url, password="wr0ng-secret")
    assert isinstance(outcome, NotSent) and outcome.pauses and outcome.by_settings
    assert "wr0ng" not in outcome.reason
    missing = sent_to(sandbox.mail_url)
    assert isinstance(missing, NotSent) and missing.code == "MAIL 530"


@pytest.mark.parametrize("password", ["pässword", "two\r\nRSET"])
def test_an_odd_password_neither_breaks_out_nor_hangs(sandbox: Sandbox, password: str) -> None:
    outcome = sent_to(sandbox.mail_url, password=password)
    assert isinstance(outcome, NotSent) and outcome.by_settings


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """A mail server with a certificate; gives its address."""
    chain, secret = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(chain, secret)
    running: list[Post] = []

    def start(**how: bool) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        running.append(Post(Store(), Faults(), listener, "post-key", tls, **how).__enter__())
        return f"smtp://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for post in running:
        post.__exit__()


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_over_tls_when_the_certificate_is_trusted(
    secured: Callable[..., str], tmp_path: Path, security: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = secured(tls_at_once=security == "tls")
    unknown = sent_to(url, password="post-key", security=security)
    assert isinstance(unknown, NotSent) and unknown.by_settings and unknown.code.startswith("tls")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    assert isinstance(sent_to(url, password="post-key", security=security), Accepted)


def test_without_starttls_nothing_is_said(sandbox: Sandbox) -> None:
    outcome = sent_to(sandbox.mail_url, password="post-key", security="starttls")
    assert isinstance(outcome, NotSent) and outcome.pauses
    assert sandbox.requests == []


# ── Servers that break the rules ──────────────────────────────────────────────────────────────────────


def hang_up(connection: socket.socket) -> None:
    reset(connection)
    raise ConnectionResetError


NO_REPLY: dict[str, Any] = {
    "closed": lambda connection: connection.shutdown(socket.SHUT_RDWR),
    "reset": hang_up,
    "junk": b"HTTP/1.1 400 Bad Request\r\n",
    "no digits": b"2x0 OK\r\n",
    "a bare blank": b"\r\n",
    "a first digit that is none": b"950 OK\r\n",
    "1yz": b"150 Going on\r\n",
    "another code in its second line": b"250-OK\r\n550 No\r\n",
    "a line without an end": b"250 " + b"x" * 10_000,
    "lines without an end": b"250-more\r\n" * 200,
    "half a reply": lambda connection: (connection.sendall(b"25"), connection.shutdown(socket.SHUT_RDWR)),
}


@pytest.mark.parametrize("case", NO_REPLY)
def test_what_is_no_reply_to_the_dot_is_unknown(case: str) -> None:
    with OddServer(dot=NO_REPLY[case]) as odd:
        outcome = sent_to(odd.url)
    assert isinstance(outcome, Unknown)
    assert len(odd.texts) == 1


@pytest.mark.parametrize("step", ["greeting", "EHLO", "MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize("case", ["closed", "junk", "1yz", "a line without an end"])
def test_what_is_no_reply_before_354_is_not_sent(step: str, case: str) -> None:
    with OddServer(**{step: NO_REPLY[case]}) as odd:
        outcome = sent_to(odd.url)
    assert isinstance(outcome, NotSent)
    assert odd.texts == []


@pytest.mark.parametrize(("step", "code"), [("MAIL", 354), ("RCPT", 334), ("DATA", 250), ("dot", 354)])
def test_a_reply_that_fits_nowhere_says_nothing(step: str, code: int) -> None:
    with OddServer(**{step: f"{code} what?\r\n".encode()}) as odd:
        outcome = sent_to(odd.url)
    assert type(outcome) is (Unknown if step == "dot" else NotSent)


SLOW: dict[str, Any] = {
    "silence": lambda connection: connection.recv(1),
    "a dripping reply": drips(b"250 ", b"x"),
    "endless lines": drips(b"", b"250-more\r\n"),
}


@pytest.mark.parametrize("case", SLOW)
@pytest.mark.parametrize(("step", "expected"), [("greeting", NotSent), ("RCPT", NotSent), ("dot", Unknown)])
def test_the_deadline_is_total(case: str, step: str, expected: type) -> None:
    with OddServer(**{step: SLOW[case]}) as odd:
        began = time.monotonic()
        outcome = sent_to(odd.url, 0.5)
        assert time.monotonic() - began < 6
        assert type(outcome) is expected
        until(lambda: not [t for t in threading.enumerate() if t.name == "provider-call"], 40)


def test_a_step_has_its_own_time(sandbox: Sandbox) -> None:
    with OddServer(MAIL=SLOW["silence"]) as odd:
        outcome = sent_to(odd.url, 30.0, step_s=0.3, timeout_s=30.0)
    assert isinstance(outcome, NotSent) and outcome.code == "MAIL lost"


def test_what_was_accepted_stays_accepted_whatever_comes_after() -> None:
    def accept_and_hang_up(connection: socket.socket) -> None:
        connection.sendall(b"250 OK\r\n")
        hang_up(connection)

    with OddServer(dot=accept_and_hang_up) as odd:
        assert isinstance(sent_to(odd.url), Accepted)
    with OddServer(QUIT=SLOW["silence"]) as odd:
        assert isinstance(sent_to(odd.url), Accepted)


def test_a_server_that_knows_no_ehlo_is_greeted_with_helo() -> None:
    with OddServer(EHLO=b"502 What?\r\n") as odd:
        assert isinstance(sent_to(odd.url), Accepted)
    assert "HELO [127.0.0.1]" in odd.said or "helo [127.0.0.1]" in odd.said


def test_a_message_that_is_too_big_is_not_offered() -> None:
    with OddServer(EHLO=EHLO.replace(b"10000000", b"100")) as odd:
        outcome = sent_to(odd.url)
    assert isinstance(outcome, Refused) and "100" in outcome.reason
    assert not any(line.startswith("MAIL") for line in odd.said)


def test_no_call_inside_a_transaction(sandbox: Sandbox, database: Database) -> None:
    with database.transaction(), pytest.raises(CallInsideTransaction):
        sent_to(sandbox.mail_url)
    assert sandbox.requests == []


def test_an_address_that_is_not_ascii_needs_a_server_that_takes_it(sandbox: Sandbox) -> None:
    given = action(to=["søren@example.com"])
    with OddServer() as odd:
        refused = server(odd.url).send(given, DEADLINE_S)
    assert isinstance(refused, Refused) and "SMTPUTF8" in refused.reason
    assert isinstance(server(sandbox.mail_url, "post-key").send(given, DEADLINE_S), Accepted)
    assert sandbox.mails[0]["recipients"] == ["søren@example.com"]


def test_a_domain_that_is_not_ascii_is_spelled_as_every_server_knows_it(sandbox: Sandbox) -> None:
    given = action(to=["Ana <ana@bücher.example>"])
    assert isinstance(server(sandbox.mail_url, "post-key").send(given, DEADLINE_S), Accepted)
    assert sandbox.mails[0]["recipients"] == ["ana@xn--bcher-kva.example"]
