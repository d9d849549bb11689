"""What the sandbox remembers: e-mails, idempotency keys, requests, faults. Kept in a file, so that a restart of the

sandbox forgets nothing that a real provider would remember.
"""

from __future__ import annotations

import hashlib
import json
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REQUESTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Mail:
    """An e-mail that the provider accepted: it goes out, whatever the sender came to know of it."""

    at: str
    provider: str
    path: str
    idempotency_key: str | None
    recipients: list[str]
    body_digest: str
    message_id: str
    thread_id: str
    subject: str = ""


@dataclass(slots=True)
class Key:
    """An idempotency key at the provider: for which request, since when, and its answer when there is one."""

    request_digest: str
    started_at: float
    answer: dict[str, Any] | None = None
    done_at: float = 0.0


@dataclass(slots=True)
class Fault:
    """What happens to the next answers; see `server.py` for the words."""

    provider: str = ""
    status: int = 0
    delay_s: float = 0.0
    cut: bool = False
    accept_then_silence: bool = False
    silence_s: float = 30.0
    retry_after: str = ""
    body: Any = None
    count: int = 1
    rate: float = 1.0


@dataclass(slots=True)
class Store:
    """Safe to use from several threads. `key_window_s`: how long a key is kept after its request ended."""

    file: Path | None = None
    key_window_s: float = 86_400.0
    mails: list[Mail] = field(default_factory=list)
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=REQUESTS_MAX))
    faults: list[Fault] = field(default_factory=list)
    keys: dict[str, Key] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def load(self) -> None:
        if self.file is None or not self.file.exists():
            return
        for line in self.file.read_text("utf-8").splitlines():
            entry = json.loads(line)
            mail = Mail(**entry["mail"])
            self.mails.append(mail)
            if mail.idempotency_key:
                answer = {"message_id": mail.message_id, "thread_id": mail.thread_id}
                self.keys[mail.idempotency_key] = Key(entry["request"], entry["time"], answer, entry["time"])

    def saw(self, provider: str, path: str, key: str | None, body: bytes) -> None:
        """Noted before anything is answered."""
        self.requests.append(
            {
                "at": _now(),
                "provider": provider,
                "path": path,
                "idempotency_key": key,
                "body_digest": digest(body),
            }
        )

    def fault(self, provider: str) -> Fault | None:
        """The fault that strikes this answer, used up by one."""
        with self._lock:
            for fault in self.faults:
                if fault.provider in ("", provider) and random.random() < fault.rate:
                    fault.count -= 1
                    if fault.count <= 0:
                        self.faults.remove(fault)
                    return fault
        return None

    def begin(self, key: str | None, request: str) -> dict[str, Any] | str | None:
        """None: go on. A dict: the first answer, again. A text: why not (the key is busy or has another request)."""
        if not key:
            return None
        with self._lock:
            known = self.keys.get(key)
            if (
                known is not None
                and known.answer is not None
                and time.time() - known.done_at > self.key_window_s
            ):
                known = None
            if known is None:
                self.keys[key] = Key(request, time.time())
                return None
            if known.request_digest != request:
                return "this key was used with another request"
            return known.answer or "a request with this key is under way"

    def forget(self, key: str | None) -> None:
        """The request failed before it was carried out: its key may be used again."""
        if key:
            with self._lock:
                self.keys.pop(key, None)

    def accept(
        self, provider: str, path: str, key: str | None, request: str, body: bytes, content: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The e-mail goes out; returns the answer, which the key keeps."""
        to = content.get("to") or []
        mail = Mail(
            at=_now(),
            provider=provider,
            path=path,
            idempotency_key=key,
            recipients=[to] if isinstance(to, str) else list(to),
            body_digest=digest(body),
            message_id=f"<{secrets.token_hex(12)}@sandbox.example>",
            thread_id=f"thd_{secrets.token_hex(8)}",
            subject=str(content.get("subject") or "(a reply)"),
        )
        answer = {"message_id": mail.message_id, "thread_id": mail.thread_id}
        with self._lock:
            self.mails.append(mail)
            if key:
                self.keys[key] = Key(request, time.time(), answer, time.time())
            self._keep(mail, request)
        return answer

    def _keep(self, mail: Mail, request: str) -> None:
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"mail": asdict(mail), "request": request, "time": time.time()}) + "\n")


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
