"""A real receiver on a real port: `receivers()` starts one against this test's database; signers and raw sockets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import sqlalchemy as sa

WITHIN_S = 12.0
SVIX_SECRET = "whsec_" + base64.b64encode(b"not twice, a test's secret key").decode()
OLD_SVIX_SECRET = "whsec_" + base64.b64encode(b"the one before, still accepted").decode()
SHOP_SECRET = "the shop's own secret"
OLD_SHOP_SECRET = "the shop's old secret"
SECRETS = {"MAIL": SVIX_SECRET, "MAIL_OLD": OLD_SVIX_SECRET, "SHOP": SHOP_SECRET, "SHOP_OLD": OLD_SHOP_SECRET}

CONFIG = """
[sources.mail]
kind = "agentmail"
namespace = "acme"
secrets = ["MAIL", "MAIL_OLD"]

[sources.shop]
kind = "generic"
namespace = "acme"
secrets = ["SHOP", "SHOP_OLD"]
signature_header = "X-Shop-Signature"
signature_prefix = "v1="
delivery_header = "X-Shop-Delivery"
key_path = "id"
type_path = "type"
time_path = "at"
success_status = 202
ignored_types = ["ping"]
ignored_members = ["attempt", "meta.sent_at"]

[sources.timed]
kind = "generic"
namespace = "other"
secrets = ["SHOP"]
signature_header = "X-Signature"
encoding = "base64"
timestamp_header = "X-Timestamp"
key_header = "X-Event"
delivery_header = "X-Delivery"
type_constant = "note"
success_status = 204

[database]
allow_unsafe = true
"""


def signature(signed: bytes, secret: str = SHOP_SECRET) -> str:
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def shop(body: bytes, *secrets: str, **headers: str) -> dict[str, str]:
    """Headers of the source `shop`: a signature under each secret."""
    signatures = ",".join(f"v1={signature(body, secret)}" for secret in secrets or (SHOP_SECRET,))
    return {"X-Shop-Signature": signatures, **{name.replace("_", "-"): v for name, v in headers.items()}}


def timed(body: bytes, event: str, *, timestamp: str | None = None, delivery: str = "d1") -> dict[str, str]:
    """Headers of the source `timed`."""
    at = str(int(time.time())) if timestamp is None else timestamp
    mac = hmac.new(SHOP_SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "X-Signature": base64.b64encode(mac).decode(),
        "X-Timestamp": at,
        "X-Event": event,
        "X-Delivery": delivery,
    }


def mail(body: bytes, *secrets: str, svix_id: str = "msg_1", timestamp: str | None = None) -> dict[str, str]:
    """Headers of the source `mail`, as Svix makes them."""
    at = str(int(time.time())) if timestamp is None else timestamp
    signed = f"{svix_id}.{at}.".encode() + body
    macs = [
        hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
        for secret in secrets or (SVIX_SECRET,)
    ]
    signatures = " ".join("v1," + base64.b64encode(mac).decode() for mac in macs)
    return {"svix-id": svix_id, "svix-timestamp": at, "svix-signature": signatures}


def message(event_id: Any, *, type_: str = "message.received", **members: Any) -> bytes:
    """An AgentMail event about a message of its own."""
    inner = {
        "inbox_id": "support@acme.example",
        "message_id": f"<{event_id}@example.com>",
        "timestamp": "2026-03-01T10:00:00Z",
        **members,
    }
    return json.dumps({"type": "event", "event_type": type_, "event_id": event_id, "message": inner}).encode()


def quick_post(port: int, source: str, body: bytes, headers: Mapping[str, str]) -> int:
    """The status, over a connection of its own; a hundredth of what a client of httpx costs to make."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    try:
        line.request("POST", f"/webhooks/{source}", body, dict(headers))
        return line.getresponse().status
    finally:
        line.close()


class Receiver:
    """One process `python -m ledger.receiver`, with its port, its log and a client."""

    def __init__(self, home: Path, port: int, environment: Mapping[str, str]) -> None:
        self.home, self.port, self.environment = home, port, dict(environment)
        self.log = home / f"receiver-{port}-{time.monotonic_ns()}.log"
        self.process = self._start()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WITHIN_S)

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "ledger.receiver"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def until(self, path: str, status: int) -> None:
        """Polls until the answer is that status; fails with the log after a while."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(httpx.TransportError):
                if self.client.get(path).status_code == status:
                    return
            time.sleep(0.02)
        pytest.fail(f"{path} was not {status} in time: {self.log.read_text()}")

    def post(self, source: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        return self.client.post(f"/webhooks/{source}", content=body, headers=dict(headers))

    def shop(self, body: bytes, **headers: str) -> int:
        return self.post("shop", body, shop(body, **headers)).status_code

    def mail(self, body: bytes, **about: Any) -> int:
        return self.post("mail", body, mail(body, **about)).status_code

    def raw(self, *pieces: bytes) -> bytes:
        """Sends the pieces over one connection as they are; everything that came back until it was closed or quiet."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=3) as line:
            for piece in pieces:
                line.sendall(piece)
            return _read_answer(line)

    def notes(self, event: str | None = None) -> list[dict[str, Any]]:
        """The log's lines, those of one event only when it is named."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if event in (None, line["event"])]

    def noted(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """The lines of one event, once there are so many: a line may be written after the answer it is about."""
        deadline = time.monotonic() + WITHIN_S
        while len(found := self.notes(event)) < count:
            if time.monotonic() > deadline:
                pytest.fail(f"{event!r} was not logged {count} times in time: {self.log.read_text()}")
            time.sleep(0.01)
        return found

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.client.close()
        try:
            return self.process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def _read_answer(line: socket.socket) -> bytes:
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = line.recv(65_536)
        if not part:
            break
        answer += part
    return answer


Start = Callable[..., Receiver]


@pytest.fixture
def receivers(
    login_url: Callable[[str], str], tmp_path: Path, unused_ports: Callable[[int], list[int]]
) -> Iterator[Start]:
    """`receivers(config=…, ready=True, port=…, VARIABLE=…)` starts one; all are stopped at the end."""
    started: list[Receiver] = []

    def start(
        config: str = CONFIG, *, ready: bool = True, port: int | None = None, **variables: str
    ) -> Receiver:
        file = tmp_path / "nottwice.toml"
        file.write_text(config)
        port = port or unused_ports(1)[0]
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "NOTTWICE_HOME": str(tmp_path),
            "NOTTWICE_CONFIG": str(file),
            "NOTTWICE_RECEIVER_PORT": str(port),
            "DATABASE_URL": login_url("nottwice_receiver"),
            **{f"NOTTWICE_SECRET_{name}": secret for name, secret in SECRETS.items()},
            **variables,
        }
        receiver = Receiver(tmp_path, port, environment)
        started.append(receiver)
        receiver.until("/readyz" if ready else "/healthz", 200)
        return receiver

    yield start
    for receiver in started:
        with suppress(subprocess.TimeoutExpired):
            receiver.stop()


@pytest.fixture
def receiver(receivers: Start) -> Receiver:
    """One receiver with the sources `mail`, `shop` and `timed`."""
    return receivers()


@pytest.fixture
def rows(database_url: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """`rows("SELECT …", values)` as the owner."""
    url = sa.make_url(database_url)
    with psycopg.connect(
        host=str(url.query["host"]), port=5432, user=url.username, dbname=url.database, autocommit=True
    ) as connection:

        def run(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            cursor = connection.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description else []

        yield run
