"""Signed webhooks as a provider would post them: to see with one's own eyes that copies are accepted once."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from ledger.errors import Misconfigured, Unavailable
from ledger.settings import Settings, SourceSettings

ANSWER_WITHIN_S = 15.0
AT_ONCE_MAX = 50


def send(settings: Settings, source: str, *, copies: int = 1, burst: int = 1) -> str:
    """Post `burst` different events, each `copies` times at once; returns what was answered, in words.

    Raises Misconfigured for a source that is not configured, Unavailable when no receiver answers.
    """
    bodies = [example(configured(settings, source), number) for number in range(burst)]
    posts = [(body, delivery_id()) for body in bodies for _ in range(copies)]
    with ThreadPoolExecutor(min(len(posts), AT_ONCE_MAX)) as pool:
        answers = Counter(pool.map(lambda p: post(settings, source, p[0], p[1]), posts))
    said = ", ".join(f"{count} × {status}" for status, count in sorted(answers.items()))
    return f"{burst} events of {source}, {copies} deliveries of each: the receiver answered {said}."


def configured(settings: Settings, source: str) -> SourceSettings:
    found = settings.sources.get(source)
    if found is None:
        known = ", ".join(sorted(settings.sources)) or "none"
        raise Misconfigured(f"There is no [sources.{source}] in the configuration; known are: {known}.")
    return found


def post(settings: Settings, source: str, body: bytes, delivery: str) -> int:
    """One delivery; returns the status. Raises Unavailable when nobody answers."""
    url = f"http://127.0.0.1:{settings.receiver_port}/webhooks/{source}"
    headers = signed(settings, source, body, delivery) | {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        raise Unavailable(
            f"No receiver answers at port {settings.receiver_port} ({type(error).__name__}). Start one: nottwice up."
        ) from error


def signed(settings: Settings, source: str, body: bytes, delivery: str) -> dict[str, str]:
    """The headers a provider would send with these bytes, signed with the source's first secret."""
    found = configured(settings, source)
    secret, now = settings.secret(found.secrets[0]), str(int(time.time()))
    if found.kind == "agentmail":
        key = base64.b64decode(secret.removeprefix("whsec_") + "==")
        mac = hmac.new(key, f"{delivery}.{now}.".encode() + body, hashlib.sha256).digest()
        value = "v1," + base64.b64encode(mac).decode()
        return {"svix-id": delivery, "svix-timestamp": now, "svix-signature": value}
    text = f"{now}.".encode() + body if found.timestamp_header else body
    mac = hmac.new(secret.encode(), text, hashlib.sha256).digest()
    value = mac.hex() if found.encoding == "hex" else base64.b64encode(mac).decode()
    headers = {found.signature_header: found.signature_prefix + value}
    if found.timestamp_header:
        headers[found.timestamp_header] = now
    if found.delivery_header:
        headers[found.delivery_header] = delivery
    return headers


def delivery_id() -> str:
    return "msg_" + secrets.token_urlsafe(16)


def example(source: SourceSettings, number: int) -> bytes:
    """An invented event of the source's kind, different each time."""
    if source.kind == "agentmail":
        return message_received(
            f"customer{number}@example.com", f"A question ({number})", "How does this work?"
        )
    key = secrets.token_hex(6)
    return _nested({source.key_path: key, source.type_path or "type": "example"})


def message_received(sender: str, subject: str, text: str, inbox: str = "support@acme.example") -> bytes:
    """An AgentMail `message.received` as its documentation shows it (docs.agentmail.to: events)."""
    event_id, message_id = f"evt_{secrets.token_hex(10)}", f"<{secrets.token_hex(10)}@example.com>"
    message = {
        "inbox_id": inbox,
        "thread_id": f"thd_{secrets.token_hex(8)}",
        "message_id": message_id,
        "from": sender,
        "to": [inbox],
        "subject": subject,
        "text": text,
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return json.dumps(
        {"type": "event", "event_type": "message.received", "event_id": event_id, "message": message},
        ensure_ascii=False,
    ).encode()


def _nested(values: Mapping[str, Any]) -> bytes:
    """`{"data.id": 1}` as `{"data": {"id": 1}}`."""
    document: dict[str, Any] = {}
    for path, value in values.items():
        *outer, last = [part for part in path.split(".") if part] or ["id"]
        place = document
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = value
    return json.dumps(document).encode()
