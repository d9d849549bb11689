"""Signed webhooks as a provider would post them: to see with one's own eyes that copies are accepted once.

What each kind's provider would post stands in `simulated/`.
"""

from __future__ import annotations

import secrets
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ledger.errors import Misconfigured, Unavailable
from ledger.running import processes
from ledger.settings import Settings, SourceSettings
from ledger.simulated import Sending, speaker

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
    bodies = _bodies(settings, source, burst, file)
    burst = len(bodies)
    answers = Counter(post_all(settings, source, [body for body in bodies for _ in range(copies)]))
    said = ", ".join(f"{count} × {status}" for status, count in sorted(answers.items()))
    events = "1 event" if burst == 1 else f"{burst} events"
    return f"{events} of {source}, delivered {copies} × each: the receiver answered {said}."


def _bodies(settings: Settings, source: str, burst: int, file: Path | None) -> list[bytes]:
    found = configured(settings, source)
    if file is None:
        secret = settings.secret(found.secrets[0])
        return [speaker(found).example(found, secret, number + 1) for number in range(burst)]
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
    sending = Sending(settings.secret(found.secrets[0]), delivery, int(time.time()) if at_s is None else at_s)
    return speaker(found).headers(found, sending, body)


def delivery_id() -> str:
    return "msg_" + secrets.token_urlsafe(16)
