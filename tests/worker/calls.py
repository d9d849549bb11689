"""What each provider's tests share: a provider at an address, answers that break a rule, what came over the wire."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ledger.records import ClaimedAction, Email, Outcome
from ledger.settings.mailera import MaileraSpelling
from tests.fix_sandbox import RawServer, Script, claimed
from worker.providers import Provider
from worker.providers.agentmail import AgentMail
from worker.providers.inboxili import Inboxili
from worker.providers.mailera import Mailera

DEADLINE_S = 40.0
KINDS = ("agentmail", "inboxili", "mailera")  # over HTTP
EACH = pytest.mark.parametrize("kind", KINDS)
SPELLING = MaileraSpelling(mismatch=("409:key_reused",))  # as the sandbox spells it
RECEIPT = Email(
    to=("ana@example.com",),
    subject="Your receipt",
    text="Thank you <3\nBye",
    sender="Shop <shop@example.com>",
)


def provider_at(kind: str, url: str, key: str | None = None) -> Provider:
    if kind == "agentmail":
        return AgentMail("agentmail", url, key or "am-key")
    if kind == "mailera":
        return Mailera("mailera", url, key or "ml-key", SPELLING)
    return Inboxili("inboxili", url + "/api/v1", key or "ix-key")


def action(kind: str, **changes: Any) -> ClaimedAction:
    key = None if kind == "inboxili" else "key-1"
    return claimed(RECEIPT.content() | changes, key=key)


def outcome_at(kind: str, url: str, deadline_s: float = DEADLINE_S) -> Outcome:
    return provider_at(kind, url).send(action(kind), deadline_s)


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


GOOD = b'{"status":"sent","message_id":"<a@b>","thread_id":"t","id":"snd_1"}'
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


def recorded(server: RawServer) -> tuple[str, dict[str, str], dict[str, Any]]:
    (raw,) = server.requests
    head, _, body = raw.decode().partition("\r\n\r\n")
    target, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return target, headers, json.loads(body)
