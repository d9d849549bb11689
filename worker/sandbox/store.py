"""What the sandbox remembers: e-mails, idempotency keys, requests.

Each accepted e-mail is one line of a file before its answer goes out, so that a restart of the sandbox forgets
nothing that a real provider would remember: neither the e-mail nor the answer that belongs to its key.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REQUESTS_MAX = 10_000
KEY_WINDOW_S = 86_400.0  # AgentMail's documentation (idempotency): 24 h after completion


@dataclass(frozen=True, slots=True)
class Mail:
    """An e-mail that the provider accepted: it goes out, whatever the sender came to know of it."""

    time: str
    provider: str
    path: str
    idempotency_key: str | None
    recipients: list[str]
    body_digest: str
    message_id: str
    thread_id: str
    subject: str = ""
    sender: str = ""
    in_reply_to: str | None = None
    labels: list[str] = field(default_factory=list)

    @property
    def answer(self) -> dict[str, Any]:
        """What its sender is told."""
        return {"message_id": self.message_id, "thread_id": self.thread_id}


@dataclass(slots=True)
class Key:
    """An idempotency key at the provider: for which request, its answer when there is one, and since when."""

    request_digest: str
    answer: dict[str, Any] | None = None
    done_at: float | None = None


class Conflict(Exception):
    """The key is under way, or was used with another request: then `other` is true. AgentMail says one code for both."""

    def __init__(self, words: str, *, other: bool) -> None:
        super().__init__(words)
        self.other = other


@dataclass(slots=True)
class Store:
    """Safe to use from several threads. `key_window_s`: how long a key is kept after its request was completed."""

    file: Path | None = None
    key_window_s: float = KEY_WINDOW_S
    clock: Callable[[], float] = time.time
    mails: list[Mail] = field(default_factory=list)
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=REQUESTS_MAX))
    keys: dict[str, Key] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def load(self) -> None:
        """Read the file back. A last line that a crash left half written was never answered, and is dropped."""
        if self.file is None or not self.file.exists():
            return
        whole, _, torn = self.file.read_bytes().rpartition(b"\n")
        if torn:
            self.file.write_bytes(whole + b"\n" if whole else b"")
        for line in filter(None, whole.splitlines()):
            entry = json.loads(line)
            mail = Mail(**entry["mail"])
            self.mails.append(mail)
            if mail.idempotency_key:
                self.keys[mail.idempotency_key] = Key(entry["request"], mail.answer, entry["done_at"])

    def saw(self, provider: str, path: str, key: str | None, body: bytes) -> dict[str, Any]:
        """Noted before anything is decided or answered. Returns the note, for a body that comes later."""
        noted: dict[str, Any] = {"time": self._now(), "provider": provider, "path": path}
        note = noted | {"idempotency_key": key, "body_digest": digest(body)}
        self.requests.append(note)
        return note

    def saw_body(self, note: dict[str, Any], body: bytes) -> None:
        note["body_digest"] = digest(body)

    def begin(self, key: str, request: str) -> dict[str, Any] | None:
        """Claim a key for a request: None, or the first answer once more. Raises Conflict."""
        with self._lock:
            known = self.keys.get(key)
            if known is None or self._is_over(known):
                self.keys[key] = Key(request)
                return None
            if known.request_digest != request:
                raise Conflict("This key was used with another request.", other=True)
            if known.answer is None or known.done_at is None:
                raise Conflict("A request with this key is under way.", other=False)
            return known.answer

    def accept(
        self, provider: str, path: str, key: str | None, request: str, body: bytes, content: Mapping[str, Any]
    ) -> Mail:
        """The e-mail goes out. Its key stays under way until `complete`."""
        mail = self._mail(provider, path, key, body, content)
        with self._lock:
            self.mails.append(mail)
            if key:
                self.keys[key].answer = mail.answer
            self._keep(mail, request)
        return mail

    def answer_without_mail(self, provider: str, key: str | None) -> dict[str, Any]:
        """Nothing goes out, and yet the key has an answer: a send that failed, or that nobody knows about."""
        answer = {"message_id": _new_id(provider), "thread_id": ""}
        with self._lock:
            if key:
                self.keys[key].answer = answer
        return answer

    def complete(self, key: str | None) -> None:
        """The request ended. A key whose request was not accepted may be used again; the window begins now."""
        with self._lock:
            known = self.keys.get(key or "")
            if known is not None and known.answer is None:
                self.keys.pop(key or "")
            elif known is not None and known.done_at is None:
                known.done_at = self.clock()

    def forget_keys(self) -> int:
        """As if the window of every key had ended."""
        with self._lock:
            forgotten = len(self.keys)
            self.keys.clear()
        return forgotten

    def find(self, *, provider: str = "", to: str = "", key: str = "") -> list[Mail]:
        """The accepted e-mails, oldest first; `to` is part of a recipient or of the subject."""
        wanted = to.casefold()
        return [
            m
            for m in list(self.mails)
            if (not provider or m.provider == provider)
            and (not key or m.idempotency_key == key)
            and (not wanted or any(wanted in text.casefold() for text in (*m.recipients, m.subject)))
        ]

    def _mail(
        self, provider: str, path: str, key: str | None, body: bytes, content: Mapping[str, Any]
    ) -> Mail:
        replied = content.get("in_reply_to")
        thread = hashlib.sha256(replied.encode()).hexdigest() if replied else secrets.token_hex(8)
        return Mail(
            time=self._now(),
            provider=provider,
            path=path,
            idempotency_key=key,
            recipients=list(content["recipients"]),
            body_digest=digest(body),
            message_id=content.get("message_id") or _new_id(provider),
            thread_id=f"thd_{thread[:16]}",
            subject=str(content.get("subject") or ""),
            sender=str(content.get("sender") or ""),
            in_reply_to=replied,
            labels=[str(label) for label in content.get("labels") or ()],
        )

    def _keep(self, mail: Mail, request: str) -> None:
        if self.file is None:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"mail": asdict(mail), "request": request, "done_at": self.clock()})
        with self.file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _is_over(self, key: Key) -> bool:
        return key.done_at is not None and self.clock() - key.done_at > self.key_window_s

    def _now(self) -> str:
        return datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="milliseconds")


def _new_id(provider: str) -> str:
    """What its answer names: of Mailera's sends the reference, as far as is known, and no Message-ID."""
    if provider == "mailera":
        return f"snd_{secrets.token_hex(12)}"
    return f"<{secrets.token_hex(12)}@{provider}.sandbox.example>"


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
