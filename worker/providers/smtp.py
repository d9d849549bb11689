"""A mail server over SMTP, step by step: a stored request out, an outcome back. It has no keys and cannot be asked.

Facts from RFC 5321 and RFC 1047: what is lost after `354` may have been sent, so a short wait for the answer to the final
dot makes doubts: at least 10 minutes are advised (4.5.3.2.6), which is this kind's default `timeout_s`. Where some
recipients are refused, it goes to the others, and the answer says so. The Message-ID is ours and the same at every
attempt: a log can be searched for it.
"""

from __future__ import annotations

import smtplib
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ledger.records import Accepted, CannotBeAsked, ClaimedAction, Looked, LookUp, NotSent, Outcome, Refused
from ledger.settings_providers import ProviderSettings
from worker.providers.content import Unsendable
from worker.providers.smtp_answers import Ended, Step, classify
from worker.providers.smtp_line import Lost, Reply, Session
from worker.providers.smtp_message import Letter, letter, message_id_of
from worker.providers.wire import Line, within

GO_ON = 354


class Smtp:
    """One account at a mail server."""

    label = "SMTP"

    def __init__(self, name: str, table: ProviderSettings, password: str) -> None:
        self.name = name
        self._table, self._password = table, password
        self._host, self._port = table.server
        self._tls = ssl.create_default_context() if table.security != "plain" else None

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        try:
            written = letter(action.content, action.reference, action.created_at)
        except (Unsendable, ValueError) as error:
            return Refused(f"Nothing was sent: {error}", "unsendable")
        return within(
            deadline_s, lambda line: self._outcome(line, written, deadline_s), _cut(written, deadline_s)
        )

    def look_up(self, lookup: LookUp, deadline_s: float) -> Looked:
        """There is no question for it in SMTP. A person can search the server's log."""
        try:
            named = f" for the Message-ID {message_id_of(lookup.content, lookup.reference)}"
        except (Unsendable, ValueError):
            named = ""
        return CannotBeAsked(f"A mail server cannot be asked about a send. Search its log{named}.")

    # ── The conversation ──────────────────────────────────────────────────────────────────────────────

    def _outcome(self, line: Line, written: Letter, deadline_s: float) -> Outcome:
        session = Session(line, self._table.helo, self._table.step_s, time.monotonic() + deadline_s)
        try:
            self._arrive(session)
            refused = self._envelope(session, written)
            reply = self._hand_over(session, line, written)
        except Unsendable as error:
            return Refused(f"Nothing was sent: {error}", "unsendable")
        except Ended as ended:
            return classify(ended, written.message_id)
        finally:
            session.leave()
        return Accepted(written.message_id, None, _note(reply, refused))

    def _arrive(self, session: Session) -> None:
        """As far as a mail server that knows us."""
        at_once = self._tls if self._table.security == "tls" else None
        with step("connect"):
            session.connect_to(self._host, self._port)
        if at_once is not None:
            with step("tls"):
                session.secure(at_once, self._host)
        good("greeting", session.read)
        good("hello", session.hello)
        if self._table.security == "starttls" and self._tls is not None:
            good("tls", lambda: session.say("STARTTLS"))
            with step("tls"):
                session.secure(self._tls, self._host)
            good("hello", session.hello)
        if self._table.user:
            self._sign_in(session)

    def _sign_in(self, session: Session) -> None:
        with step("sign-in"):
            try:
                session.login(self._table.user, self._password)
            except smtplib.SMTPAuthenticationError as error:
                raise Ended("sign-in", Reply.of(error.smtp_code, error.smtp_error)) from None
            except (smtplib.SMTPException, UnicodeError) as error:  # no way to sign in that both know
                raise Ended("sign-in", Reply(500, type(error).__name__)) from None

    def _envelope(self, session: Session, written: Letter) -> list[str]:
        """Sender and recipients; those that were refused, in the server's words. At least one was taken."""
        good("MAIL", lambda: session.say("MAIL", f"FROM:<{written.sender}>{_options(session, written)}"))
        replies = {}
        for recipient in written.recipients:
            with step("RCPT"):
                replies[recipient] = session.say("RCPT", f"TO:<{recipient}>")
        refused = {one: reply for one, reply in replies.items() if not reply.is_good}
        if len(refused) == len(replies):
            raise Ended(
                "RCPT", min(refused.values(), key=lambda reply: reply.code)
            )  # one that may yet be taken
        # By their place, for a note is kept longer than the addresses are.
        return [
            f"number {n} of {len(replies)} ({reply.code})"
            for n, reply in enumerate(replies.values(), 1)
            if not reply.is_good
        ]

    def _hand_over(self, session: Session, line: Line, written: Letter) -> Reply:
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


def _note(reply: Reply, refused: list[str]) -> str:
    if not refused:
        return f"It said: {reply.code} {reply.words}"
    return f"It went to the others; refused were {'; '.join(refused)}. It said: {reply.code} {reply.words}"


def _cut(written: Letter, deadline_s: float) -> Callable[[bool], Outcome]:
    """What is known at the deadline, by whether the text was under way."""

    def outcome(may_have_left: bool) -> Outcome:
        if may_have_left:
            return classify(Ended("dot", None, f"no answer within {deadline_s:g} s"), written.message_id)
        return NotSent(
            f"Within {deadline_s:g} s the mail server did not ask for the message.", "deadline", pauses=True
        )

    return outcome
