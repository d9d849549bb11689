"""Signed webhooks as a provider would post them: to see with one's own eyes that copies are accepted once.

Signatures by the providers' documents: AgentMail's are Svix's (docs.svix.com, verifying payloads: HMAC-SHA256 over
`id.timestamp.body`, base64); Inboxili's as its package checks them; a generic source's follow its configuration.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ledger import examples, processes
from ledger.errors import Misconfigured, Unavailable
from ledger.settings import Settings, SourceSettings

ANSWER_WITHIN_S = 15.0  # what AgentMail waits
AT_ONCE_MAX = 50
# The receiver stands on this machine; no proxy of the environment is in between.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def send(
    settings: Settings, source: str, *, copies: int = 1, burst: int = 1, file: Path | None = None
) -> str:
    """Post `burst` invented events, each `copies` times, all at once; returns what was answered, in words.

    With `file` its bytes are the one body. Raises Misconfigured for a source that is not configured and a file that
    cannot be read, Unavailable when no receiver answers.
    """
    bodies = _bodies(configured(settings, source), burst, file)
    burst = len(bodies)
    answers = Counter(post_all(settings, source, [body for body in bodies for _ in range(copies)]))
    said = ", ".join(f"{count} × {status}" for status, count in sorted(answers.items()))
    events = "1 event" if burst == 1 else f"{burst} events"
    return f"{events} of {source}, delivered {copies} × each: the receiver answered {said}."


def _bodies(source: SourceSettings, burst: int, file: Path | None) -> list[bytes]:
    if file is None:
        return [examples.example(source, number + 1) for number in range(burst)]
    if burst > 1:
        raise Misconfigured("A file holds one event. Leave out --burst, or the file.")
    try:
        return [file.read_bytes()]
    except OSError as error:
        raise Misconfigured(f"The file {file} cannot be read: {error.strerror}.") from error


def configured(settings: Settings, source: str) -> SourceSettings:
    found = settings.sources.get(source)
    if found is None:
        known = ", ".join(sorted(settings.sources)) or "none"
        raise Misconfigured(f"There is no [sources.{source}] in the configuration; known are: {known}.")
    return found


def post_all(settings: Settings, source: str, bodies: Sequence[bytes]) -> list[int]:
    """Deliver all at the same instant (50 at most); copies of one body share a delivery id, as a retry does."""
    deliveries = {body: delivery_id() for body in bodies}
    with ThreadPoolExecutor(min(len(bodies), AT_ONCE_MAX)) as pool:
        return list(pool.map(lambda body: post(settings, source, body, deliveries[body]), bodies))


def post(
    settings: Settings, source: str, body: bytes, delivery: str, headers: Mapping[str, str] | None = None
) -> int:
    """One delivery; returns the status. `headers` replace the signed ones. Raises Unavailable when nobody answers."""
    url = processes.url(
        settings.receiver_port, f"/webhooks/{source}", processes.reached_at(settings.receiver.host)
    )
    sent = {"Content-Type": "application/json", **(headers or signed(settings, source, body, delivery))}
    try:
        request = urllib.request.Request(url, body, sent)  # noqa: S310 - an address of ours: http
        with _opener.open(request, timeout=ANSWER_WITHIN_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError as error:
        raise Unavailable(
            f"No receiver answers at port {settings.receiver_port} ({type(error).__name__}). "
            "Start one: nottwice up."
        ) from error


def signed(
    settings: Settings, source: str, body: bytes, delivery: str, *, at_s: int | None = None
) -> dict[str, str]:
    """The headers a provider would send with these bytes at that time, signed with the source's first secret."""
    found = configured(settings, source)
    secret, at_s = settings.secret(found.secrets[0]), int(time.time()) if at_s is None else at_s
    if found.kind == "agentmail":
        return svix(secret, delivery, at_s, body)
    if found.kind == "inboxili":
        return {"X-Inboxili-Signature": hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}
    return generic(found, secret, delivery, at_s, body)


def svix(secret: str, delivery: str, at_s: int, body: bytes) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_") + "==")
    mac = hmac.new(key, f"{delivery}.{at_s}.".encode() + body, hashlib.sha256).digest()
    value = "v1," + base64.b64encode(mac).decode()
    return {"svix-id": delivery, "svix-timestamp": str(at_s), "svix-signature": value}


def generic(source: SourceSettings, secret: str, delivery: str, at_s: int, body: bytes) -> dict[str, str]:
    timestamp = str(at_s * 1000 if source.timestamp_unit == "ms" else at_s)
    template = source.signed or ("{timestamp}.{body}" if source.timestamp_header else "{body}")
    before, _, after = template.replace("{timestamp}", timestamp).partition("{body}")
    mac = hmac.new(secret.encode(), before.encode() + body + after.encode(), hashlib.sha256).digest()
    value = mac.hex() if source.encoding == "hex" else base64.b64encode(mac).decode()
    headers = {
        source.signature_header: source.signature_prefix + value,
        source.timestamp_header: timestamp,
        source.delivery_header: delivery,
        source.key_header: hashlib.sha256(body).hexdigest()[:24],  # the same for copies of the same event
        source.type_header: examples.TYPE,
    }
    return {name: value for name, value in headers.items() if name}


def delivery_id() -> str:
    return "msg_" + secrets.token_urlsafe(16)
