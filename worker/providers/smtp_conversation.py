"""The conversation with a mail server, step by step (RFC 5321, 3): each ends well, or ends it all at a known step."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ledger.settings.providers import ProviderSettings
from worker.providers.content import Unsendable
from worker.providers.smtp_answers import Ended, Step
from worker.providers.smtp_line import Lost, Reply, Session
from worker.providers.smtp_message import Letter
from worker.providers.wire import Line

GO_ON = 354


def arrive(session: Session, table: ProviderSettings, tls: ssl.SSLContext | None, password: str) -> None:
    """As far as a mail server that knows us. Raises Ended."""
    at_once = tls if table.security == "tls" else None
    with step("connect"):
        session.connect_to(*table.server)
    if at_once is not None:
        with step("tls"):
            session.secure(at_once, table.server[0])
    good("greeting", session.read)
    good("hello", session.hello)
    if table.security == "starttls" and tls is not None:
        good("tls", lambda: session.say("STARTTLS"))
        with step("tls"):
            session.secure(tls, table.server[0])
        good("hello", session.hello)
    if table.user:
        sign_in(session, table.user, password)


def sign_in(session: Session, user: str, password: str) -> None:
    with step("sign-in"):
        try:
            session.login(user, password)
        except smtplib.SMTPAuthenticationError as error:
            raise Ended("sign-in", Reply.of(error.smtp_code, error.smtp_error)) from None
        except (smtplib.SMTPException, UnicodeError) as error:  # no way to sign in that both know
            raise Ended("sign-in", Reply(500, type(error).__name__)) from None


def envelope(session: Session, written: Letter) -> list[str]:
    """Sender and recipients; which of these were refused, where at least one was taken. Raises Ended, Unsendable."""
    good("MAIL", lambda: session.say("MAIL", f"FROM:<{written.sender}>{_options(session, written)}"))
    replies = {}
    for recipient in written.recipients:
        with step("RCPT"):
            replies[recipient] = session.say("RCPT", f"TO:<{recipient}>")
    refused = {one: reply for one, reply in replies.items() if not reply.is_good}
    if len(refused) == len(replies):
        raise Ended("RCPT", min(refused.values(), key=lambda reply: reply.code))  # one that may yet be taken
    # By their place, for a note is kept longer than the addresses are.
    return [
        f"number {n} of {len(replies)} ({reply.code})"
        for n, reply in enumerate(replies.values(), 1)
        if not reply.is_good
    ]


def hand_over(session: Session, line: Line, written: Letter) -> Reply:
    """The message, and the reply to its final dot. Raises Ended."""
    with step("DATA"):
        reply = session.say("DATA")
        if reply.code != GO_ON:
            raise Ended("DATA", reply)
        line.leave()
    return good("dot", lambda: session.text(written.data))


@contextmanager
def step(name: Step) -> Iterator[None]:
    """A step of the conversation; what breaks it ends it. Raises Ended."""
    try:
        yield
    except (Ended, Unsendable):
        raise
    except Exception as error:
        words = str(error) if isinstance(error, Lost) else type(error).__name__
        raise Ended(name, None, words) from error


def good(name: Step, ask: Callable[[], Reply]) -> Reply:
    """A step whose reply must be 2yz. Raises Ended."""
    with step(name):
        reply = ask()
        if not reply.is_good:
            raise Ended(name, reply)
        return reply


def _options(session: Session, written: Letter) -> str:
    """What MAIL says besides. Raises Unsendable where the server cannot take this message."""
    given = ""
    if session.has_extn("size"):
        most = session.esmtp_features["size"]
        if most.isdecimal() and 0 < int(most) < len(written.data):
            raise Unsendable(f"it has {len(written.data)} bytes, and the mail server takes {int(most)}.")
        given += f" SIZE={len(written.data)}"
    if written.unicode:
        if not session.has_extn("smtputf8"):
            raise Unsendable("an address is not ASCII, and the mail server takes no such address (SMTPUTF8).")
        session.command_encoding = "utf-8"
        given += " BODY=8BITMIME SMTPUTF8"
    return given
