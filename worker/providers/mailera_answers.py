"""What Mailera's answers mean, read where the configuration says that their parts stand.

A status of HTTP means what HTTP says (RFC 9110, 15; 429: RFC 6585), for Mailera publishes none. Its article gives the
five words for where a send is, and that `unknown` is not `failed` and wants reconciliation.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx

from ledger import payload
from ledger.records import (
    Accepted,
    Answered,
    InFlight,
    Looked,
    NotSent,
    Outcome,
    PointsTo,
    Refused,
    Sighting,
    Unanswered,
    Unknown,
)
from ledger.settings.mailera import MaileraSpelling
from worker.providers.content import one_line
from worker.providers.outcomes import ANY, Answer, Rule, classify, message_id_of, retry_after_s

# Whatever has no row is unknown: any other 5xx, any 3xx, a lost or broken answer. What says that a key is busy, or
# another request's, is configured; `rows` adds it.
TABLE = (
    Rule(400, Refused, "Mailera found the request invalid and sent nothing."),
    Rule(413, Refused, "Mailera found the message too big and sent nothing."),
    Rule(422, Refused, "Mailera could not use the request and sent nothing."),
    Rule(404, Refused, "Mailera knows no such mailbox, or our key may not see it."),
    Rule(404, NotSent, "This is not Mailera's API. Check base_url.", code="", pauses=True),
    Rule(401, NotSent, "Mailera does not take our API key. Check it.", pauses=True),
    Rule(403, NotSent, "Mailera does not let our API key do this. Check its scopes.", pauses=True),
    Rule(429, NotSent, "Mailera's rate limit is reached.", pauses=True),
    Rule(408, Unknown, "Mailera gave up waiting; the message may have been sent."),
    Rule(500, Unknown, "Mailera failed inside; the message may have been sent."),
    Rule(503, Unknown, "Mailera is unavailable; the message may have been sent."),
)
BUSY = "Mailera has this key under way, or used it with other content."
OTHERS = "Mailera knows this key for another request."

# Where a send is, as a 2xx to the send itself may say: it is taken, it failed, or Mailera does not know.
FAILED = "failed"
TAKEN = frozenset(("queued", "sending", "sent"))
# And as a look-up sees it, with whether that is proof. `failed` is: for what Mailera does not know itself it has another
# word. `queued` and `sending` say that it is not over: it is looked up again.
SIGHTINGS = {
    "sent": (PointsTo.SENT, True),
    FAILED: (PointsTo.NOT_SENT, True),
    "queued": (PointsTo.NEITHER, False),
    "sending": (PointsTo.NEITHER, False),
    "unknown": (PointsTo.NEITHER, False),
}
NOT_FOUND = "Mailera knows no such send; not found does not mean not sent"


def rows(spelling: MaileraSpelling) -> tuple[Rule, ...]:
    """The whole table of an account."""
    busy = tuple(_busy(said, BUSY) for said in spelling.in_flight)
    return TABLE + busy + tuple(_busy(said, OTHERS, other_content=True) for said in spelling.mismatch)


def _busy(said: str, means: str, *, other_content: bool = False) -> Rule:
    status, _, code = said.partition(":")
    return Rule(int(status), InFlight, means, code or ANY, other_content=other_content)


class Reader:
    """Reads the answers of one account."""

    def __init__(self, spelling: MaileraSpelling) -> None:
        self._spelling, self._table = spelling, rows(spelling)

    def outcome(self, answer: httpx.Response) -> Outcome:
        """Of a send whose answer came whole."""
        told, said = self._told(answer)
        return self._taken(said) if answer.is_success else classify(self._table, told)

    def by_status(self, status: int, retry_after: str | None) -> Outcome:
        """Of a send whose answer broke off: an error's status line is enough to know it by."""
        return classify(self._table, Answer(status, "", "(its body cannot be read)", retry_after))

    def looked(self, answer: httpx.Response, asked: str) -> Looked:
        """What a look-up saw; `asked` is the id that was asked for."""
        told, said = self._told(answer)
        if answer.is_success:
            return self._seen(said, asked)
        if told.status == httpx.codes.NOT_FOUND and told.code:
            return Answered((), NOT_FOUND)
        words = one_line(f"{told.status} {told.code} {told.words}")[:200]
        why = f"Mailera could not answer. It said: {words}"
        return Unanswered(why, retry_after_s(told.retry_after, datetime.now(UTC)))

    def _taken(self, said: Any) -> Outcome:
        """A 2xx. Without a reference of the send it is no acceptance, whatever else it says."""
        word, send_id = self._at(said, "status_path"), message_id_of(self._at(said, "send_id_path"))
        if word == FAILED:
            return Refused("Mailera says that sending failed.", FAILED)
        if send_id is None:
            return Unknown("Mailera's answer names no send; it may have been sent.", "no_send_id")
        if word is not None and (not isinstance(word, str) or word not in TAKEN):
            return Unknown("Mailera itself does not say whether it was sent.", "not_said", send_id)
        return Accepted(message_id_of(self._at(said, "message_id_path")) or send_id)

    def _seen(self, said: Any, asked: str) -> Looked:
        word, send_id = self._at(said, "status_path"), self._at(said, "send_id_path")
        if not isinstance(word, str) or word not in SIGHTINGS:
            return Unanswered("Mailera's answer does not say where the send is.")
        if self._spelling.look_up_by == "send-id" and send_id not in (None, asked):
            return Unanswered("Mailera's answer is about another send.")
        points_to, proof = SIGHTINGS[word]
        found = f"Mailera calls this send {word}"
        if not proof:
            return Answered((), found)
        message_id = message_id_of(self._at(said, "message_id_path")) or message_id_of(send_id) or asked
        return Answered((Sighting(found, points_to, proof, message_id),), found)

    def _told(self, answer: httpx.Response) -> tuple[Answer, Any]:
        """The answer's status and words, and its JSON: None for what is none."""
        try:
            said = payload.parse(answer.content)
        except payload.Malformed:
            said = None
        code, words = self._at(said, "code_path"), self._at(said, "words_path")
        return Answer(
            answer.status_code,
            one_line(code) if isinstance(code, str) else "",
            words if isinstance(words, str) else "",
            answer.headers.get("retry-after"),
        ), said

    def _at(self, said: Any, path: str) -> Any:
        where = getattr(self._spelling, path)
        return payload.look_up(said, where) if where else None
