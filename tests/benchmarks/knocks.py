"""Signed deliveries to knock with, and wrk, which knocks: 64 connections, each asking again as soon as it is answered.

Every request is made and signed before the clock runs, so that wrk costs as little as a client can. They are
AgentMail's: a Svix signature, an event of some 700 bytes, an occurrence beside the key; the dearest source there is.
"""

from __future__ import annotations

import base64
import hmac
import json
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CONNECTIONS = 64
SECRET = b"a benchmark's secret, of no use"
SECRET_TEXT = "whsec_" + base64.b64encode(SECRET).decode()
TEXT = "Hello, our order 4711 has not arrived yet. Could you have a look where it is? " * 4
APART = b"\0"

SCRIPT = """
local file = io.open({path!r}, "rb")
local requests = {{}}
for one in file:read("*a"):gmatch("[^%z]+") do requests[#requests + 1] = one end
file:close()
local last = 0

request = function()
  last = last % #requests + 1
  return requests[last]
end

done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format('FOUND {{"answered": %d, "took_us": %d, "p50_us": %d, "p99_us": %d, "refused": %d, "broken": %d}}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
"""


class Missing(RuntimeError):
    """A program that is not installed here; the message says how to install it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one run of wrk met."""

    answered: int
    took_us: int
    p50_us: int
    p99_us: int
    refused: int
    broken: int

    @property
    def per_s(self) -> float:
        return self.answered / self.took_us * 1e6


def require_wrk() -> str:
    """Where wrk is. Raises Missing."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise Missing(
            "wrk is missing. Install it: apt-get install wrk (Debian, Ubuntu), brew install wrk (macOS)."
        )
    return wrk


def message(key: str) -> bytes:
    """An AgentMail event about a message of its own."""
    about = {
        "inbox_id": "support@acme.example",
        "thread_id": f"thread-{key}",
        "message_id": f"<{key}@mail.example>",
        "timestamp": "2026-03-01T10:00:00Z",
        "from": "Customer <customer@mail.example>",
        "subject": "Where is my order?",
        "text": TEXT,
    }
    event = {"type": "event", "event_type": "message.received", "event_id": key, "message": about}
    return json.dumps(event).encode()


def delivery(key: str, number: int) -> bytes:
    """One delivery of an event as it goes over the wire; the number is the attempt's."""
    body, svix_id, at = message(key), f"msg_{key}_{number}", str(int(time.time()))
    signed = hmac.digest(SECRET, f"{svix_id}.{at}.".encode() + body, "sha256")
    head = (
        f"POST /webhooks/mail HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"svix-id: {svix_id}\r\nsvix-timestamp: {at}\r\nsvix-signature: v1,{base64.b64encode(signed).decode()}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def knock(
    folder: Path, port: int, deliveries: Iterable[bytes], *, connections: int, duration_s: float
) -> Found:
    """For so long; a delivery beyond the last is the first again."""
    requests, script = folder / "requests", folder / "knock.lua"
    requests.write_bytes(APART.join(deliveries))
    script.write_text(SCRIPT.format(path=str(requests)))
    command = [
        require_wrk(),
        "-t1",
        f"-c{connections}",
        f"-d{duration_s:g}s",
        "--timeout",
        "10s",
        "-s",
        str(script),
    ]
    done = subprocess.run([*command, f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("FOUND "))
    return Found(**json.loads(line.removeprefix("FOUND ")))
