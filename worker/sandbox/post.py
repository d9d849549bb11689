"""The sandbox's mail server: SMTP by aiosmtpd, with the same faults, keys and log as the APIs beside it.

A fault of provider "smtp" strikes at a step of the conversation: `at` is connect, hello, tls, sign-in, mail, rcpt, data
(the command), body (after 354) or dot, which is the default. `status` is then the reply's code.
"""

from __future__ import annotations

import asyncio
import contextlib
import email
import email.policy
import logging
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from worker.sandbox.faults import Fault, Faults
from worker.sandbox.store import Store

logging.getLogger("mail.log").setLevel(logging.ERROR)  # aiosmtpd warns of what it does itself
SIZE_MAX = 10 * 2**20
PROVIDER = "smtp"
ACCEPTED, WANTS_SIGN_IN, BUSY = (
    "250 2.0.0 OK: queued as {}",
    "530 5.7.0 Sign in first",
    "451 4.3.0 A fault of the sandbox",
)


class Post:
    """A mail server on a thread of its own. `password`: without one anybody may send."""

    def __init__(
        self,
        store: Store,
        faults: Faults,
        listener: socket.socket,
        password: str = "",
        tls: ssl.SSLContext | None = None,
        *,
        tls_at_once: bool = False,
    ) -> None:
        self.store, self.faults, self.password, self.tls = store, faults, password, tls
        self._listener, self._at_once = listener, tls_at_once
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="sandbox-smtp", daemon=True)

    def __enter__(self) -> Post:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        secured = self.tls if self._at_once else None
        serving = self._loop.create_server(lambda: Conversation(self), sock=self._listener, ssl=secured)
        server = self._loop.run_until_complete(serving)
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


class Conversation(SMTP):
    """One connection. What is struck by a fault answers as the fault says."""

    def __init__(self, post: Post) -> None:
        self._post = post
        super().__init__(
            self,
            hostname="sandbox.example",
            ident="Not Twice sandbox",
            data_size_limit=SIZE_MAX,
            enable_SMTPUTF8=True,
            tls_context=None if post._at_once else post.tls,
            auth_require_tls=False,
            authenticator=self._signed_in,
            loop=post._loop,
        )
        self._noted: dict[str, Any] = {}

    def _signed_in(
        self, _server: Any, _session: Session, _envelope: Envelope, mechanism: str, given: Any
    ) -> Any:
        good = (
            isinstance(given, LoginPassword)
            and given.password.decode("utf-8", "replace") == self._post.password
        )
        return AuthResult(success=good, handled=False)

    # ── The steps ─────────────────────────────────────────────────────────────────────────────────────

    async def push(self, status: Any) -> None:
        text = status.decode() if isinstance(status, bytes) else status
        if self.session is not None and not getattr(self.session, "greeted", False):
            self.session.greeted = True  # type: ignore[attr-defined]
            if await self._is_struck("connect"):
                return
        await super().push(text)
        if text.startswith("354"):
            await self._is_struck("body")

    async def smtp_EHLO(self, hostname: str) -> None:
        if not await self._is_struck("hello"):
            await super().smtp_EHLO(hostname)

    async def smtp_HELO(self, hostname: str) -> None:
        if not await self._is_struck("hello"):
            await super().smtp_HELO(hostname)

    async def smtp_STARTTLS(self, arg: str) -> None:
        if not await self._is_struck("tls"):
            await super().smtp_STARTTLS(arg)

    async def smtp_AUTH(self, arg: str) -> None:
        if not await self._is_struck("sign-in"):
            await super().smtp_AUTH(arg)

    async def smtp_MAIL(self, arg: str | None) -> None:
        self._noted = self._post.store.saw(PROVIDER, f"MAIL {arg}", None, b"")
        if self._post.password and not (self.session and self.session.authenticated):
            await super().push(WANTS_SIGN_IN)
        elif not await self._is_struck("mail", arg or ""):
            await super().smtp_MAIL(arg)

    async def smtp_RCPT(self, arg: str | None) -> None:
        if not await self._is_struck("rcpt", arg or ""):
            await super().smtp_RCPT(arg)

    async def smtp_DATA(self, arg: str) -> None:
        if not await self._is_struck("data"):
            await super().smtp_DATA(arg)

    async def handle_DATA(self, _server: Any, _session: Session, envelope: Envelope) -> str:
        """The final dot came."""
        body = envelope.original_content or b""
        self._post.store.saw_body(self._noted, body)
        fault = self._post.faults.take(PROVIDER, _path(envelope), body, at="dot") or Fault()
        answer = ACCEPTED.format(self._accept(envelope, body)) if fault.accepts else BUSY
        await self._pass(fault)
        return _reply(fault) if fault.status else answer

    def _accept(self, envelope: Envelope, body: bytes) -> str:
        mail = self._post.store.accept(PROVIDER, _path(envelope), None, "", body, _content(envelope, body))
        return mail.thread_id

    # ── Faults ────────────────────────────────────────────────────────────────────────────────────────

    async def _is_struck(self, at: str, said: str = "") -> bool:
        """Whether a fault answered in our place. One that ends the connection does not come back."""
        fault = self._post.faults.take(PROVIDER, said, b"", at=at)
        if fault is None:
            return False
        await self._pass(fault)
        if fault.status:
            await super().push(_reply(fault))
        return bool(fault.status)

    async def _pass(self, fault: Fault) -> None:
        """Wait as the fault says, or for the end of the connection that it cuts."""
        await asyncio.sleep(fault.delay_s + (fault.silence_s if fault.is_silent else 0.0))
        if (fault.cut or fault.is_silent) and self.transport is not None:
            self.transport.abort()  # type: ignore[attr-defined]
            await asyncio.Event().wait()  # this task is cancelled with its connection

    async def handle_exception(self, error: Exception) -> str:
        return f"451 4.3.0 {type(error).__name__}"


def _path(envelope: Envelope) -> str:
    return f"MAIL FROM:<{envelope.mail_from}>"


def _reply(fault: Fault) -> str:
    return f"{fault.status} {fault.code or 'A fault of the sandbox'}"


def _content(envelope: Envelope, body: bytes) -> Mapping[str, Any]:
    """What the log shows of a message. A header that nobody can read is shown as none."""
    headers: Any = {}
    with contextlib.suppress(Exception):
        headers = email.message_from_bytes(body, policy=email.policy.default)
    return {
        "recipients": list(envelope.rcpt_tos),
        "sender": str(envelope.mail_from or ""),
        "subject": str(headers.get("subject") or ""),
        "in_reply_to": str(headers["in-reply-to"]) if headers.get("in-reply-to") else None,
        "message_id": str(headers.get("message-id") or ""),
    }
