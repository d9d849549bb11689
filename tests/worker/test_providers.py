"""Each row of both outcome tables, over real HTTP, and every way an answer can fail to be one."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.database import Database
from ledger.errors import CallInsideTransaction, Misconfigured
from ledger.records import Accepted, ClaimedAction, Email, InFlight, NotSent, Outcome, Refused, Unknown
from ledger.settings import ProviderSettings, Settings
from tests.fix_sandbox import RawServer, Sandbox, Script, claimed, until
from worker import providers
from worker.providers import Provider, agentmail, inboxili
from worker.providers.agentmail import AgentMail
from worker.providers.inboxili import Inboxili
from worker.providers.outcomes import RETRY_AFTER_S_MAX, retry_after_s

DEADLINE_S = 5.0
BOTH = pytest.mark.parametrize("kind", ["agentmail", "inboxili"])
RECEIPT = Email(
    to=("ana@example.com",),
    subject="Your receipt",
    text="Thank you <3\nBye",
    sender="Shop <shop@example.com>",
)


def provider_at(kind: str, url: str, key: str | None = None) -> Provider:
    if kind == "agentmail":
        return AgentMail("agentmail", url, key or "am-key")
    return Inboxili("inboxili", url + "/api/v1", key or "ix-key")


def action(kind: str, **changes: Any) -> ClaimedAction:
    key = "key-1" if kind == "agentmail" else None
    return claimed(RECEIPT.content() | changes, key=key)


def outcome_at(kind: str, url: str, deadline_s: float = DEADLINE_S) -> Outcome:
    return provider_at(kind, url).send(action(kind), deadline_s)


# ── The tables, row by row ────────────────────────────────────────────────────────────────────────────

CODES = {"*": "some_code", "": None}
ROWS = [
    (kind, rule)
    for kind, module in (("agentmail", agentmail), ("inboxili", inboxili))
    for rule in module.TABLE
]


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


@BOTH
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


@BOTH
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


@BOTH
def test_a_wrong_key_pauses_the_account(sandbox: Sandbox, kind: str) -> None:
    outcome = provider_at(kind, sandbox.url, "another").send(action(kind), DEADLINE_S)
    assert isinstance(outcome, NotSent)
    assert outcome.pauses
    assert outcome.code == "unauthorized"
    assert sandbox.mails == []


# ── What may and may not be in an answer ──────────────────────────────────────────────────────────────


@BOTH
def test_accepted(sandbox: Sandbox, kind: str) -> None:
    outcome = outcome_at(kind, sandbox.url)
    (mail,) = sandbox.mails
    assert isinstance(outcome, Accepted)
    assert outcome.message_id == mail["message_id"]
    assert outcome.thread_id == (mail["thread_id"] if kind == "agentmail" else None)
    assert mail["recipients"] == ["ana@example.com"]
    assert mail["idempotency_key"] == ("key-1" if kind == "agentmail" else None)


NO_ACCEPTANCE = {
    "empty": "",
    "html": "<h1>hello</h1>",
    "a list": [],
    "null": None,
    "nothing in it": {},
    "a number": {"status": "sent", "message_id": 17},
    "null id": {"status": "sent", "message_id": None},
    "blank id": {"status": "sent", "message_id": "  "},
    "two lines": {"status": "sent", "message_id": "<a@b>\r\nX: y"},
    "endless id": {"status": "sent", "message_id": "x" * 2000},
    "an object": {"status": "sent", "message_id": {"id": "<a@b>"}},
}


@BOTH
@pytest.mark.parametrize("case", NO_ACCEPTANCE)
def test_a_200_without_a_message_id_is_unknown(
    raw_server: Callable[[Script], RawServer], kind: str, case: str
) -> None:
    body = NO_ACCEPTANCE[case]
    server = raw_server(answer(body if isinstance(body, str) else json.dumps(body)))
    assert isinstance(outcome_at(kind, server.url), Unknown)
    assert len(server.requests) == 1


def test_inboxili_accepts_by_its_word_sent_alone(raw_server: Callable[[Script], RawServer]) -> None:
    server = raw_server(answer(json.dumps({"status": "failed", "message_id": "<a@b>"})))
    assert isinstance(outcome_at("inboxili", server.url), Unknown)


def answer(body: str, status: str = "200 OK", headers: str = "") -> Script:
    raw = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\n{headers}\r\n"
    )
    return lambda connection: connection.sendall(head.encode() + raw)


def send(raw: bytes) -> Script:
    return lambda connection: connection.sendall(raw)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


GOOD = b'{"status":"sent","message_id":"<a@b>","thread_id":"t"}'
BROKEN: dict[str, Script] = {
    "closed without a byte": lambda _: None,
    "reset": reset,
    "junk": send(b"220 smtp.example.com ESMTP\r\n"),
    "junk status": send(b"HTTP/1.1 abc OK\r\n\r\n"),
    "half a head": send(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "half a body": send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + GOOD),
    "half a chunk": send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n" + GOOD),
    "another encoding": send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
    "half an error": send(b"HTTP/1.1 500 Oops\r\nContent-Length: 1000\r\n\r\n{"),
}


@BOTH
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_answer_is_unknown(raw_server: Callable[[Script], RawServer], kind: str, case: str) -> None:
    server = raw_server(BROKEN[case])
    assert isinstance(outcome_at(kind, server.url), Unknown)
    assert len(server.requests) == 1


@BOTH
def test_an_error_is_known_by_its_status_line_alone(
    raw_server: Callable[[Script], RawServer], kind: str
) -> None:
    """Once the 401 has come, what follows cannot turn it into a sent e-mail."""
    server = raw_server(send(b"HTTP/1.1 401 No\r\nContent-Length: 1000\r\n\r\n{"))
    outcome = outcome_at(kind, server.url)
    assert isinstance(outcome, NotSent)
    assert outcome.pauses


@BOTH
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(
    raw_server: Callable[[Script], RawServer], kind: str, status: int
) -> None:
    elsewhere = raw_server(answer(GOOD.decode()))
    server = raw_server(answer("", f"{status} Moved", f"Location: {elsewhere.url}/x\r\n"))
    assert isinstance(outcome_at(kind, server.url), Unknown)
    assert elsewhere.requests == []
    assert len(server.requests) == 1


def test_other_users_of_urllib_keep_their_redirects(raw_server: Callable[[Script], RawServer]) -> None:
    elsewhere = raw_server(answer("here"))
    server = raw_server(answer("", "302 Moved", f"Location: {elsewhere.url}/x\r\n"))
    with urllib.request.urlopen(server.url, timeout=DEADLINE_S) as found:
        assert found.read() == b"here"


# ── Time ──────────────────────────────────────────────────────────────────────────────────────────────


def drips(first: bytes, drop: bytes) -> Script:
    def drip(connection: socket.socket) -> None:
        connection.sendall(first)
        while True:  # ends when the caller hangs up
            connection.sendall(drop)
            time.sleep(0.02)

    return drip


SLOW: dict[str, Script] = {
    "silence": lambda connection: (connection.recv(1), None)[1],  # returns when the caller hangs up
    "a dripping head": drips(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "endless headers": drips(b"HTTP/1.1 200 OK\r\n", b"X-More: y\r\n"),
    "a dripping body": drips(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
    "endless 1xx": drips(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
}


@BOTH
@pytest.mark.parametrize("case", SLOW)
def test_the_deadline_is_total(raw_server: Callable[[Script], RawServer], kind: str, case: str) -> None:
    server = raw_server(SLOW[case])
    began = time.monotonic()
    outcome = outcome_at(kind, server.url, 0.4)
    assert time.monotonic() - began < 6
    assert isinstance(outcome, Unknown)
    assert len(server.requests) == 1
    until(lambda: not [t for t in threading.enumerate() if t.name == "provider-call"], 40)


@contextmanager
def full_backlog() -> Iterator[str]:
    """An address where nobody ever answers a connection, as behind a firewall that drops."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        for one in waiting:
            one.close()


@BOTH
def test_a_connection_that_never_stands_is_not_sent(kind: str) -> None:
    with full_backlog() as url:
        outcome = outcome_at(kind, url, 0.6)
    assert isinstance(outcome, NotSent)
    assert outcome.pauses


@BOTH
def test_a_refused_connection_is_not_sent(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    outcome = outcome_at(kind, f"http://127.0.0.1:{port}")
    assert isinstance(outcome, NotSent)
    assert outcome.pauses


@BOTH
def test_an_unknown_host_is_not_sent(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    outcome = outcome_at(kind, "http://nowhere.invalid")
    assert isinstance(outcome, NotSent)
    assert outcome.pauses


@BOTH
def test_a_failed_tls_handshake_is_not_sent(raw_server: Callable[[Script], RawServer], kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True).start()
        outcome = outcome_at(kind, f"https://127.0.0.1:{listener.getsockname()[1]}")
    assert isinstance(outcome, NotSent)
    assert outcome.pauses


@BOTH
def test_a_name_that_takes_for_ever_to_look_up_is_not_sent(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up cannot be bounded; the call can, and after its end nothing is sent any more."""
    looked_up, server = threading.Event(), socket.create_server(("127.0.0.1", 0))
    real = socket.getaddrinfo

    def slow(host: Any, *rest: Any, **named: Any) -> Any:
        looked_up.wait(10)
        return real("127.0.0.1", *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with server:
        outcome = outcome_at(kind, f"http://127.0.0.1:{server.getsockname()[1]}", 0.3)
        looked_up.set()
        connection = server.accept()[0]
        connection.settimeout(5)
        assert connection.recv(1) == b""  # it connects at last, and hangs up without a byte
        connection.close()
    assert isinstance(outcome, NotSent)
    assert outcome.code == "deadline"


@BOTH
def test_no_call_inside_a_transaction(sandbox: Sandbox, database: Database, kind: str) -> None:
    with database.transaction(), pytest.raises(CallInsideTransaction):
        outcome_at(kind, sandbox.url)
    assert sandbox.requests == []


NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SND_08: dict[str, float | None] = {
    "3": 3.0,
    " 3 ": 3.0,
    "0": 1.0,
    "1.5": 1.5,
    "-5": None,
    "9999999999": RETRY_AFTER_S_MAX,
    "9" * 5000: RETRY_AFTER_S_MAX,
    "soon": None,
    "": None,
    "nan": None,
    "inf": None,
    "1_0": None,
    "٣": None,
    "Mon, 30 Nov 2026 12:00:05 GMT": 5.0,
    "Mon, 30 Nov 2026 14:00:05 +0200": 5.0,
    "Monday, 30-Nov-26 12:00:05 GMT": 5.0,
    "Mon, 30 Nov 2026 11:00:00 GMT": None,
    "Mon, 30 Nov 9999 12:00:00 GMT": RETRY_AFTER_S_MAX,
    "Mon, 99 Nov 99999 12:00:00 GMT": None,
}


@pytest.mark.parametrize("spelling", SND_08, ids=lambda s: s[:30] or "blank")
def test_snd_08_retry_after_in_every_spelling(spelling: str) -> None:
    assert retry_after_s(spelling, NOW) == SND_08[spelling]


def test_snd_08_absent_is_the_normal_backoff() -> None:
    assert retry_after_s(None, NOW) is None


@BOTH
def test_snd_08_is_read_from_the_wire_and_never_slept(sandbox: Sandbox, kind: str) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=300), usegmt=True)
    for spelling, low, high in (("7", 7, 7), (date, 290, 300)):
        sandbox.faults({"status": 429, "retry_after": spelling})
        began = time.monotonic()
        outcome = outcome_at(kind, sandbox.url)
        assert time.monotonic() - began < 6  # 7 s, had it waited
        assert isinstance(outcome, NotSent)
        assert outcome.retry_after_s is not None
        assert low <= outcome.retry_after_s <= high
    assert len(sandbox.requests) == 2


# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_key_gives_the_first_answer(sandbox: Sandbox) -> None:
    first, again = (outcome_at("agentmail", sandbox.url) for _ in range(2))
    assert isinstance(first, Accepted)
    assert first == again
    assert len(sandbox.mails) == 1


def test_the_same_key_with_other_content_is_in_flight(sandbox: Sandbox) -> None:
    provider = provider_at("agentmail", sandbox.url)
    assert isinstance(provider.send(action("agentmail"), DEADLINE_S), Accepted)
    for change in ({"text": "another"}, {"sender": "other@example.com"}, {"in_reply_to": "<m@x>"}):
        outcome = provider.send(action("agentmail", **change), DEADLINE_S)
        assert isinstance(outcome, InFlight)
        assert outcome.code == "conflict"
    assert len(sandbox.mails) == 1


def test_snd_01_accepted_but_the_answer_is_lost(sandbox: Sandbox) -> None:
    sandbox.faults({"accept_then_silence": True})
    lost = outcome_at("agentmail", sandbox.url, 0.4)
    found = outcome_at("agentmail", sandbox.url)
    assert isinstance(lost, Unknown)
    assert isinstance(found, Accepted)
    (mail,) = sandbox.mails
    assert found.message_id == mail["message_id"]
    first, second = sandbox.requests
    assert first["body_digest"] == second["body_digest"]
    assert first["idempotency_key"] == second["idempotency_key"] == "key-1"


# ── What is sent ──────────────────────────────────────────────────────────────────────────────────────


def recorded(server: RawServer) -> tuple[str, dict[str, str], dict[str, Any]]:
    (raw,) = server.requests
    head, _, body = raw.decode().partition("\r\n\r\n")
    target, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return target, headers, json.loads(body)


def test_agentmail_send_on_the_wire(raw_server: Callable[[Script], RawServer]) -> None:
    server = raw_server(answer(GOOD.decode()))
    email = Email(
        to=("ana@example.com",), subject="Hello", text="T", html="<p>T</p>", inbox="support@acme.example",
        cc=("c@example.com",), bcc=("b@example.com",), reply_to=("r@example.com",),
    )  # fmt: skip
    provider_at("agentmail", server.url).send(claimed(email, key="k-1"), DEADLINE_S)
    target, headers, body = recorded(server)
    assert target == "POST /v0/inboxes/support%40acme.example/messages/send HTTP/1.1"
    assert headers["idempotency-key"] == "k-1"
    assert headers["authorization"] == "Bearer am-key"
    assert headers["user-agent"] == "agentmail/2.0.18"
    assert body == {
        "to": ["ana@example.com"], "cc": ["c@example.com"], "bcc": ["b@example.com"], "reply_to": ["r@example.com"],
        "subject": "Hello", "text": "T", "html": "<p>T</p>", "labels": ["nt-0123456789abcdef"],
    }  # fmt: skip


def test_agentmail_reply_goes_to_the_named_recipients(raw_server: Callable[[Script], RawServer]) -> None:
    server = raw_server(answer(GOOD.decode()))
    email = Email(
        to=("ana@example.com",), subject="Re: Hello", text="T", inbox="s@acme.example", in_reply_to="<m@x>"
    )
    provider_at("agentmail", server.url).send(claimed(email, key="k-1"), DEADLINE_S)
    target, headers, body = recorded(server)
    assert target == "POST /v0/inboxes/s%40acme.example/messages/%3Cm%40x%3E/reply HTTP/1.1"
    assert headers["idempotency-key"] == "k-1"
    assert body == {"to": ["ana@example.com"], "text": "T", "labels": ["nt-0123456789abcdef"]}


def test_inboxili_send_on_the_wire(raw_server: Callable[[Script], RawServer]) -> None:
    server = raw_server(answer(GOOD.decode()))
    provider_at("inboxili", server.url).send(action("inboxili"), DEADLINE_S)
    target, headers, body = recorded(server)
    assert target == "POST /api/v1/transactional/send HTTP/1.1"
    assert headers["authorization"] == "Bearer ix-key"
    assert headers["user-agent"] == "inboxili-python/0.1.0"
    assert body == {
        "to": "ana@example.com",
        "from_email": "shop@example.com",
        "from_name": "Shop",
        "subject": "Your receipt",
        "text_body": "Thank you <3\nBye",
        "html_body": "<p>Thank you &lt;3<br>\nBye</p>",
    }


CRAFTED = [
    "<a/../../send>",
    "../../../inboxes/evil@example.com/messages/send#",
    "m?x=1",
    "m#fragment",
    "m%2Fsend",
    "a\r\nX-Evil: 1",
    "...",
    "é 日本",
]


@pytest.mark.parametrize("crafted", CRAFTED)
@pytest.mark.parametrize("place", ["inbox", "in_reply_to"])
def test_a_crafted_id_stays_one_part_of_the_path(sandbox: Sandbox, place: str, crafted: str) -> None:
    ids = {"inbox": "support@acme.example", "in_reply_to": "<m@example.com>", place: crafted}
    email = Email(to=("ana@example.com",), subject="s", text="t", **ids)  # type: ignore[arg-type]
    outcome = provider_at("agentmail", sandbox.url).send(claimed(email, key="k"), DEADLINE_S)
    assert [r["path"].rpartition("/")[2] for r in sandbox.requests] == ["reply"]
    (mail,) = sandbox.mails
    assert (mail["sender"], mail["in_reply_to"]) == (ids["inbox"], ids["in_reply_to"])
    assert isinstance(outcome, Accepted)


@pytest.mark.parametrize("crafted", [".", ".."])
@pytest.mark.parametrize("place", ["inbox", "in_reply_to"])
def test_dots_are_no_id(sandbox: Sandbox, place: str, crafted: str) -> None:
    """Quoting leaves dots alone, and a client or proxy takes them out of a path."""
    outcome = provider_at("agentmail", sandbox.url).send(action("agentmail", **{place: crafted}), DEADLINE_S)
    assert isinstance(outcome, Refused)
    assert sandbox.requests == []


HOSTILE_SUBJECTS = {
    "=?utf-8?q?hi=0D=0ABcc=3A_x=40example=2Eorg?=": "hi Bcc: x@example.org",
    "hi\r\nBcc: x@example.org": "hi Bcc: x@example.org",
    "a\u2028b\u2029c\x0bd\x00e\x85f": "a b c d e f",
    "=?no-such-charset?q?x?=": "=?no-such-charset?q?x?=",
    "=?utf-8?b?!!?=": None,
    "日本 🎉": "日本 🎉",
    "x" * 5000: "x" * 998,
}


@BOTH
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


@BOTH
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


@BOTH
@pytest.mark.parametrize("case", UNSENDABLE)
def test_what_cannot_be_sent_is_refused_without_a_call(sandbox: Sandbox, kind: str, case: str) -> None:
    outcome = provider_at(kind, sandbox.url).send(action(kind, **UNSENDABLE[case]), DEADLINE_S)
    assert isinstance(outcome, Refused)
    assert outcome.code == "unsendable"
    assert sandbox.requests == []


@pytest.mark.parametrize(
    "more", [{"cc": ["c@example.com"]}, {"bcc": ["c@example.com"]}, {"to": ["a@b.c", "d@e.f"]}]
)
def test_inboxili_never_drops_a_recipient(sandbox: Sandbox, more: dict[str, Any]) -> None:
    outcome = provider_at("inboxili", sandbox.url).send(action("inboxili", **more), DEADLINE_S)
    assert isinstance(outcome, Refused)
    assert sandbox.requests == []


# ── From the configuration ────────────────────────────────────────────────────────────────────────────


def configured(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Settings:
    monkeypatch.setenv("NOTTWICE_SECRET_API", "am-key")
    table = ProviderSettings(
        **({"kind": "agentmail", "key": "api", "base_url": "http://127.0.0.1:1"} | changes)
    )
    found: Any = SimpleNamespace(providers={"post": table}, secret=lambda name: "am-key")
    return found  # type: ignore[no-any-return]


def test_providers_are_built_by_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    built = providers.build_all(configured(monkeypatch))
    assert isinstance(built["post"], AgentMail)
    assert built["post"].name == "post"


@pytest.mark.parametrize(
    "address", ["api.agentmail.to", "ftp://x", "http://", "https://x/?a=b", "https://x/#y"]
)
@BOTH
def test_an_address_that_is_none_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, kind: str, address: str
) -> None:
    with pytest.raises(Misconfigured, match="base_url"):
        providers.build_all(configured(monkeypatch, kind=kind, base_url=address))
