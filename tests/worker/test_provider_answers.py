"""Every way an answer over HTTP can fail to be one."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest

from ledger.records import Accepted, NotSent, Unknown
from tests.fix_sandbox import RawServer, Sandbox, Script
from tests.worker.calls import BROKEN, EACH, GOOD, answer, outcome_at, send
from worker.providers import httpx_line, wire


@EACH
def test_accepted(sandbox: Sandbox, kind: str) -> None:
    outcome = outcome_at(kind, sandbox.url)
    (mail,) = sandbox.mails
    assert isinstance(outcome, Accepted)
    assert outcome.message_id == mail["message_id"]
    assert outcome.thread_id == (mail["thread_id"] if kind == "agentmail" else None)
    assert mail["recipients"] == ["ana@example.com"]
    assert mail["idempotency_key"] == (None if kind == "inboxili" else "key-1")


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


@EACH
@pytest.mark.parametrize("case", NO_ACCEPTANCE)
def test_a_200_without_a_message_id_is_unknown(
    raw_server: Callable[[Script], RawServer], kind: str, case: str
) -> None:
    body = NO_ACCEPTANCE[case]
    spelled = body if isinstance(body, str) else json.dumps(body)
    server = raw_server(answer(spelled.replace("message_id", "id") if kind == "mailera" else spelled))
    assert isinstance(outcome_at(kind, server.url), Unknown)
    assert len(server.requests) == 1


@EACH
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_answer_is_unknown(raw_server: Callable[[Script], RawServer], kind: str, case: str) -> None:
    server = raw_server(BROKEN[case])
    assert isinstance(outcome_at(kind, server.url), Unknown)
    assert len(server.requests) == 1


@EACH
def test_an_error_is_known_by_its_status_line_alone(
    raw_server: Callable[[Script], RawServer], kind: str
) -> None:
    """Once the 401 has come, what follows cannot turn it into a sent e-mail."""
    server = raw_server(send(b"HTTP/1.1 401 No\r\nContent-Length: 1000\r\n\r\n{"))
    outcome = outcome_at(kind, server.url)
    assert isinstance(outcome, NotSent)
    assert outcome.pauses


@EACH
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(
    raw_server: Callable[[Script], RawServer], kind: str, status: int
) -> None:
    elsewhere = raw_server(answer(GOOD.decode()))
    server = raw_server(answer("", f"{status} Moved", f"Location: {elsewhere.url}/x\r\n"))
    assert isinstance(outcome_at(kind, server.url), Unknown)
    assert elsewhere.requests == []
    assert len(server.requests) == 1


@EACH
@pytest.mark.parametrize(
    "framing", ["Transfer-Encoding: chunked", "Connection: close", "Content-Length: 99999999"]
)
def test_an_answer_that_fills_the_memory_is_unknown(
    raw_server: Callable[[Script], RawServer], kind: str, framing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "BODY_BYTES_MAX", 100_000)
    monkeypatch.setattr(httpx_line, "BODY_BYTES_MAX", 100_000)
    piece = b" " * 10_000
    piece = b"2710\r\n" + piece + b"\r\n" if "chunked" in framing else piece
    written = 0

    def endless(connection: socket.socket) -> None:
        nonlocal written
        connection.sendall(f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n".encode())
        while True:  # ends when the caller hangs up
            connection.sendall(piece)
            written += len(piece)

    outcome = outcome_at(kind, raw_server(endless).url, 30.0)
    assert isinstance(outcome, Unknown)
    assert outcome.code != "deadline"
    assert written < 20_000_000


@EACH
@pytest.mark.parametrize("ahead", ["100 Continue", "102 Processing", "103 Early Hints"])
def test_what_comes_ahead_of_an_answer_is_not_the_answer(
    raw_server: Callable[[Script], RawServer], kind: str, ahead: str
) -> None:
    good = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(GOOD), GOOD)
    server = raw_server(send(f"HTTP/1.1 {ahead}\r\nLink: </x>\r\n\r\n".encode() * 3 + good))
    assert isinstance(outcome_at(kind, server.url), Accepted)
