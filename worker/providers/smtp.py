"""A mail server over SMTP, step by step: a stored request out, an outcome back. It has no keys and cannot be asked.

Facts from RFC 5321 and RFC 1047: what is lost after `354` may have been sent, so a short wait for the answer to the final
dot makes doubts: at least 10 minutes are advised (4.5.3.2.6), which is this kind's default `timeout_s`. Where some
recipients are refused, it goes to the others, and the answer says so. The Message-ID is ours and the same at every
attempt: a log can be searched for it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from ledger.records import Accepted, CannotBeAsked, ClaimedAction, Looked, LookUp, NotSent, Outcome, Refused
from ledger.settings.providers import ProviderSettings
from worker.providers.content import Unsendable
from worker.providers.smtp_answers import Ended, classify
from worker.providers.smtp_conversation import arrive, envelope, hand_over
from worker.providers.smtp_line import Reply, Session
from worker.providers.smtp_message import Letter, letter, message_id_of
from worker.providers.wire import Line, within


class Smtp:
    """One account at a mail server."""

    label = "SMTP"

    def __init__(self, name: str, table: ProviderSettings, password: str) -> None:
        self.name = name
        self._table, self._password = table, password
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

    def _outcome(self, line: Line, written: Letter, deadline_s: float) -> Outcome:
        session = Session(line, self._table.helo, self._table.step_s, deadline_s)
        try:
            arrive(session, self._table, self._tls, self._password)
            refused = envelope(session, written)
            reply = hand_over(session, line, written)
        except Unsendable as error:
            return Refused(f"Nothing was sent: {error}", "unsendable")
        except Ended as ended:
            return classify(ended, written.message_id)
        finally:
            session.leave()
        return Accepted(written.message_id, None, _note(reply, refused))


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
