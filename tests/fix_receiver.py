"""A real receiver on a real port: `receivers()` starts one against this test's database; signers and raw sockets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import sqlalchemy as sa

from ledger import schema
from ledger.embedded import Cluster
from tests import starts
from tests.databases import Databases
from tests.receiver import known, told

WITHIN_S = 40.0  # a deadline on a busy machine, not a duration
# A pool that closes what is idle may close what another thread is just about to use (httpcore 1.0).
# The certificates that httpx reads for each client are 30 ms of CPU.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
KEPT = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=None)
LIMIT = 5_000_000  # [receiver] body_bytes_max, by default
SVIX_SECRET = "whsec_" + base64.b64encode(b"not twice, a test's secret key").decode()
OLD_SVIX_SECRET = "whsec_" + base64.b64encode(b"the one before, still accepted").decode()
SHOP_SECRET = "the shop's own secret"
OLD_SHOP_SECRET = "the shop's old secret"
SECRETS = {"MAIL": SVIX_SECRET, "MAIL_OLD": OLD_SVIX_SECRET, "SHOP": SHOP_SECRET, "SHOP_OLD": OLD_SHOP_SECRET}
SECRETS |= known.SECRETS

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

[sources.plain]
kind = "generic"
namespace = "plain"
secrets = ["SHOP"]
signature_header = "X-Signature"
key_header = "X-Event"
delivery_header = "X-Delivery"
type_constant = "note"

[sources.millis]
kind = "generic"
namespace = "other"
secrets = ["SHOP"]
signature_header = "X-Signature"
timestamp_header = "X-Timestamp"
timestamp_unit = "ms"
key_header = "X-Event"
type_constant = "note"

[sources.packed]
kind = "generic"
namespace = "packed"
secrets = ["SHOP"]
signature_header = "X-Signature"
key_path = "id"
type_path = "type"
coded = "plain"

[sources.wired]
kind = "generic"
namespace = "packed"
secrets = ["SHOP"]
signature_header = "X-Signature"
key_path = "id"
type_path = "type"
coded = "coded"

[sources.elsewhere]
kind = "agentmail"
namespace = "other"
secrets = ["MAIL"]

[database]
allow_unsafe = true
"""
CONFIG += known.CONFIG + told.CONFIG


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


def plain(body: bytes, event: str = "e1", *, delivery: str = "d1") -> dict[str, str]:
    """Headers of the source `plain`, which takes any document: its key is a header, and nothing but the body is signed."""
    return {"X-Signature": signature(body), "X-Event": event, "X-Delivery": delivery}


def millis(body: bytes, event: str, *, timestamp: str) -> dict[str, str]:
    """Headers of the source `millis`."""
    signed = signature(f"{timestamp}.".encode() + body)
    return {"X-Signature": signed, "X-Timestamp": timestamp, "X-Event": event}


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


def head(headers: Mapping[str, str], *fields: str, source: str = "shop") -> bytes:
    """What stands ahead of a body, as bytes for a raw socket."""
    lines = [
        f"POST /webhooks/{source} HTTP/1.1",
        "Host: x",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, *fields, "", ""]).encode()


def quick_post(port: int, source: str, body: bytes, headers: Mapping[str, str]) -> int:
    """The status, over a connection of its own; a hundredth of what a client of httpx costs to make."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    try:
        line.request("POST", f"/webhooks/{source}", body, dict(headers))
        return line.getresponse().status
    finally:
        line.close()


def until(done: Callable[[], Any], within_s: float = WITHIN_S) -> None:
    """Looks again and again; fails when it does not happen in time."""
    deadline = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


class Receiver:
    """One process `python -m ledger.receiver`, with its port, its log and a client."""

    def __init__(
        self,
        home: Path,
        port: int,
        environment: Mapping[str, str],
        host: str = "127.0.0.1",
        *,
        anew: bool = False,
    ) -> None:
        self.home, self.port, self.environment = home, port, dict(environment)
        self.log = home / f"receiver-{port}-{time.monotonic_ns()}.log"
        self._read_from = 0
        self.process = self._start(anew)
        self.client = httpx.Client(
            base_url=f"http://{host}:{port}", timeout=WITHIN_S, limits=KEPT, verify=NO_TLS
        )

    def _start(self, anew: bool) -> starts.Running:
        command = [sys.executable, "-m", "ledger.receiver"]
        with self.log.open("ab") as log:
            out = log.fileno()
            return starts.start(command, env=self.environment, stdout=out, stderr=out, anew=anew)

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

    def plain(self, body: bytes, event: str = "e1", **about: str) -> int:
        return self.post("plain", body, plain(body, event, **about)).status_code

    def shop(self, body: bytes, **headers: str) -> int:
        return self.post("shop", body, shop(body, **headers)).status_code

    def mail(self, body: bytes, *secrets: str, **about: Any) -> int:
        return self.post("mail", body, mail(body, *secrets, **about)).status_code

    def raw(self, *pieces: bytes, within_s: float = WITHIN_S) -> bytes:
        """Sends the pieces over one connection as they are; everything that came back until it was closed or quiet."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=within_s) as line:
            for piece in pieces:
                line.sendall(piece)
            return _read_answer(line)

    def begin(self) -> None:
        """What it said until now belongs to another test."""
        self._read_from = self.log.stat().st_size

    @property
    def said(self) -> str:
        return self.log.read_bytes()[self._read_from :].decode()

    def notes(self, event: str | None = None) -> list[dict[str, Any]]:
        """The log's lines, those of one event only when it is named."""
        lines = [json.loads(line) for line in self.said.splitlines() if line.startswith("{")]
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


def resident_bytes(receiver: Receiver) -> int:
    pages = int(Path(f"/proc/{receiver.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Growth:
    """How much more than before a process held at most."""

    bytes = 0


@contextmanager
def growth(receiver: Receiver) -> Iterator[Growth]:
    """The peak within the block, as the kernel noted it, over what was resident before."""
    about, grown = Path(f"/proc/{receiver.process.pid}"), Growth()
    (about / "clear_refs").write_text("5")  # proc(5): the peak begins anew
    before = resident_bytes(receiver)
    yield grown
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", (about / "status").read_text())
    grown.bytes = int(peak) * 1024 - before


Start = Callable[..., Receiver]
Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def receivers(
    login_url: Callable[[str], str], tmp_path: Path, unused_ports: Callable[[int], list[int]]
) -> Iterator[Start]:
    """`receivers(config=…, ready=True, port=…, VARIABLE=…)` starts one; all are stopped at the end."""
    with starter(tmp_path, login_url("nottwice_receiver"), unused_ports) as start:
        yield start


@contextmanager
def starter(home: Path, url: str, unused_ports: Callable[[int], list[int]]) -> Iterator[Start]:
    """What it started is stopped at the end."""
    started: list[Receiver] = []

    def start(
        config: str = CONFIG,
        *,
        ready: bool = True,
        port: int | None = None,
        host: str = "127.0.0.1",
        anew: bool = False,
        **variables: str,
    ) -> Receiver:
        file = home / "nottwice.toml"
        file.write_text(config)
        port = port or unused_ports(1)[0]
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "NOTTWICE_HOME": str(home),
            "NOTTWICE_CONFIG": str(file),
            "NOTTWICE_RECEIVER_PORT": str(port),
            "DATABASE_URL": url,
            **{f"NOTTWICE_SECRET_{name}": secret for name, secret in SECRETS.items()},
            **variables,
        }
        receiver = Receiver(home, port, environment, host, anew=anew)
        started.append(receiver)
        receiver.until("/readyz" if ready else "/healthz", 200)
        return receiver

    try:
        yield start
    finally:
        for receiver in started:
            with suppress(subprocess.TimeoutExpired):
                receiver.stop()


@pytest.fixture
def receiver(receivers: Start) -> Receiver:
    """One receiver with the sources of CONFIG."""
    return receivers()


@pytest.fixture
def rows(database_url: str) -> Iterator[Rows]:
    """`rows("SELECT …", values)` as the owner."""
    with _asking(database_url) as ask:
        yield ask


@contextmanager
def _asking(database_url: str) -> Iterator[Rows]:
    url = sa.make_url(database_url)
    with psycopg.connect(
        host=str(url.query["host"]), port=5432, user=url.username, dbname=url.database, autocommit=True
    ) as connection:

        def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            cursor = connection.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description else []

        yield ask


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A server of this test's own, that it may stop; migrated."""
    home = Path(tempfile.mkdtemp(prefix="nottwice-receiver-", dir="/tmp"))
    home.chmod(0o711)  # the server's user must get through
    server = Cluster(home, settings={"fsync": "off"})
    server.ensure()
    schema.migrate(server.url())
    yield server
    server.stop()
    shutil.rmtree(home, ignore_errors=True)


# ── one process for many tests ────────────────────────────────────────────────────────────────────────


class Door:
    """A receiver that many tests share, and its database, which is empty when a test begins."""

    def __init__(self, receiver: Receiver, rows: Rows, database_url: str) -> None:
        self.receiver, self.rows, self.database_url = receiver, rows, database_url

    def begin(self) -> None:
        self.rows(
            "TRUNCATE nottwice.events, nottwice.quarantine, nottwice.counters, nottwice.refusals CASCADE"
        )
        self.receiver.begin()

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) FROM nottwice.{table}")[0][0])

    @property
    def nothing_stored(self) -> bool:
        return self.count("events") == self.count("quarantine") == 0

    @contextmanager
    def holding(self, statement: str) -> Iterator[None]:
        """A transaction of somebody else's stays open behind this statement."""
        url = sa.make_url(self.database_url)
        with psycopg.connect(
            host=str(url.query["host"]), port=5432, user=url.username, dbname=url.database
        ) as other:
            other.execute(statement.encode())
            yield

    def bodies(self) -> list[bytes]:
        """What is kept of the events, in the order of acceptance."""
        return [body for (body,) in self.rows("SELECT body FROM nottwice.event_contents ORDER BY event_id")]


@pytest.fixture(scope="session")
def shared_door(
    databases: Databases, tmp_path_factory: pytest.TempPathFactory, unused_ports: Callable[[int], list[int]]
) -> Iterator[Door]:
    home = tmp_path_factory.mktemp("door")
    with databases.lent() as url:
        login = sa.make_url(url).set(username="nottwice_receiver").render_as_string(hide_password=False)
        with starter(home, login, unused_ports) as start, _asking(url) as ask:
            yield Door(start(), ask, url)


@pytest.fixture
def door(shared_door: Door) -> Door:
    """The shared receiver, for tests that neither stop nor configure it."""
    shared_door.begin()
    return shared_door


@pytest.fixture
def door_receivers(door: Door, tmp_path: Path, unused_ports: Callable[[int], list[int]]) -> Iterator[Start]:
    """More receivers on the shared door's database, which are this test's own."""
    with starter(tmp_path, door.receiver.environment["DATABASE_URL"], unused_ports) as start:
        yield start
