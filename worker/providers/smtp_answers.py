"""What it means when an SMTP conversation ends at some step (RFC 5321, 3.3, 4.2.5 and 6.1; RFC 1047).

Up to `354` nothing was handed over. From there on only a reply to the final dot says what became of it: for 2yz the
server has it, for 4yz and 5yz it has not. Whatever is lost after `354` is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ledger.records import NotSent, Outcome, Refused, Unknown
from worker.providers.smtp_line import Reply

Step = Literal["connect", "greeting", "hello", "tls", "sign-in", "MAIL", "RCPT", "DATA", "dot"]
LOST = "lost"  # no reply: cut, silent too long, or none that can be read


@dataclass(frozen=True, slots=True)
class Row:
    """`ends`: how the step ended: LOST, a reply's first digit, or a whole code, which goes before the digit."""

    step: Step
    ends: str
    outcome: type[Refused] | type[NotSent] | type[Unknown]
    means: str
    pauses: bool = False
    by_settings: bool = False


def _no_way(step: Step, means: str, ends: Sequence[str] = (LOST, "4", "5"), **more: bool) -> tuple[Row, ...]:
    return tuple(Row(step, one, NotSent, means, pauses=True, **more) for one in ends)


TABLE = (
    *_no_way("connect", "The mail server could not be reached.", (LOST,)),
    *_no_way("greeting", "The mail server does not take connections now."),
    *_no_way("hello", "The mail server does not take us as a client. Check helo."),
    *_no_way(
        "tls", "The mail server offers no TLS that we trust. Check security and base_url.", by_settings=True
    ),
    *_no_way("sign-in", "The mail server could not check our password now.", (LOST, "4")),
    *_no_way(
        "sign-in",
        "The mail server does not take our user and password. Check them.",
        ("5",),
        by_settings=True,
    ),
    Row("MAIL", LOST, NotSent, "The connection broke before anything was handed over."),
    Row("MAIL", "4", NotSent, "The mail server does not take this sender now."),
    Row("MAIL", "421", NotSent, "The mail server is closing down.", pauses=True),
    Row("MAIL", "5", Refused, "The mail server refused the sender."),
    Row(
        "MAIL", "530", NotSent, "The mail server wants a user and a password.", pauses=True, by_settings=True
    ),
    Row("RCPT", LOST, NotSent, "The connection broke before anything was handed over."),
    Row("RCPT", "4", NotSent, "The mail server takes none of the recipients now."),
    Row("RCPT", "421", NotSent, "The mail server is closing down.", pauses=True),
    Row("RCPT", "5", Refused, "The mail server refused every recipient."),
    Row(
        "RCPT", "530", NotSent, "The mail server wants a user and a password.", pauses=True, by_settings=True
    ),
    Row("DATA", LOST, NotSent, "The connection broke before anything was handed over."),
    Row("DATA", "4", NotSent, "The mail server does not take the message now."),
    Row("DATA", "421", NotSent, "The mail server is closing down.", pauses=True),
    Row("DATA", "5", Refused, "The mail server refused the message before it was handed over."),
    Row("dot", LOST, Unknown, "The message was handed over and nothing came back; it may have been sent."),
    Row("dot", "4", NotSent, "The mail server had the message and gave it back for now."),
    Row("dot", "421", NotSent, "The mail server gave the message back and is closing down.", pauses=True),
    Row("dot", "5", Refused, "The mail server had the message and refused it."),
)
UNNAMED = {
    True: "The mail server answered what nobody expects there; the message may have been sent.",
    False: "The mail server answered what nobody expects there, before anything was handed over.",
}


class Ended(Exception):
    """The conversation is over at this step, without an acceptance."""

    def __init__(self, step: Step, reply: Reply | None, words: str = "") -> None:
        super().__init__(step)
        self.step, self.reply, self.words = step, reply, words


def classify(ended: Ended, message_id: str) -> Outcome:
    """The outcome by the table. A reply that no row names says nothing; after `354` that is unknown."""
    code = str(ended.reply.code) if ended.reply else LOST
    rows = {row.ends: row for row in TABLE if row.step == ended.step}
    outcome = Unknown if ended.step == "dot" else NotSent
    row = rows.get(code) or rows.get(code[:1]) or Row(ended.step, code, outcome, UNNAMED[outcome is Unknown])
    said = f"{ended.reply.code} {ended.reply.words}" if ended.reply else ended.words
    reason = f"{row.means} It said: {said}"[:900] if ended.reply else f"{row.means} ({said or 'no reply'})"
    if row.outcome is NotSent:
        return NotSent(reason, f"{ended.step} {code}", pauses=row.pauses, by_settings=row.by_settings)
    if row.outcome is Unknown:
        return Unknown(f"{reason} Its Message-ID is {message_id}.", f"{ended.step} {code}", message_id)
    return Refused(reason, f"{ended.step} {code}")
