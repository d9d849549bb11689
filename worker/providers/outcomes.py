"""From an answer to an outcome: the tables' rows, and what counts as a well-formed answer.

The rule behind every table (contracts of the providers; an "API error" is not "not sent"): an outcome other than
unknown needs a row that names the status. Whatever no row names is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from ledger.records import InFlight, NotSent, Outcome, Refused, Unknown
from worker.providers.content import one_line

ANY = "*"
BY_SETTINGS = (401, 403, 404)  # of what pauses an account: the key, its rights, the address
RETRY_AFTER_S_MIN = 1.0  # "0" means soon, not a busy loop
RETRY_AFTER_S_MAX = 600.0  # longer than this an account is not left alone without another look
MESSAGE_ID_CHARS_MAX = 998  # a line of RFC 5322


@dataclass(frozen=True, slots=True)
class Rule:
    """A row: what a status means. `code` is the provider's own word; ANY is any word, "" an answer without one."""

    status: int
    outcome: type[Refused] | type[NotSent] | type[InFlight] | type[Unknown]
    means: str
    code: str = ANY
    pauses: bool = False
    other_content: bool = (
        False  # of InFlight: this key came with another request, and no other meaning is possible
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """What was received: the status at least. `words` come from outside and are only ever shown."""

    status: int
    code: str = ""
    words: str = ""
    retry_after: str | None = None


UNNAMED = "Nobody promises that this answer means that nothing was sent."


def classify(table: Sequence[Rule], answer: Answer, now: datetime | None = None) -> Outcome:
    """The outcome by the table: the row with the answer's own code, else the one for any, else unknown."""
    rules = {rule.code: rule for rule in table if rule.status == answer.status}
    rule = rules.get(answer.code) or rules.get(ANY) or Rule(answer.status, Unknown, UNNAMED)
    reason = f"{rule.means} It said: {one_line(f'{answer.status} {answer.code} {answer.words}')[:400]}"
    code = answer.code[:100]
    if rule.outcome is NotSent:
        after_s = retry_after_s(answer.retry_after, now or datetime.now(UTC))
        by_settings = rule.pauses and answer.status in BY_SETTINGS
        return NotSent(reason, code, after_s, rule.pauses, by_settings)
    if rule.outcome is InFlight:
        return InFlight(reason, code, rule.other_content)
    return rule.outcome(reason, code)


def given_up(deadline_s: float) -> Callable[[bool], Outcome]:
    """What is known of a send that was cut at its deadline, by whether anything can have left."""

    def outcome(may_have_left: bool) -> Outcome:
        if may_have_left:
            return Unknown(f"No whole answer came within {deadline_s:g} s.", "deadline")
        nothing_left = f"No connection stood within {deadline_s:g} s, so nothing left."
        return NotSent(nothing_left, "deadline", pauses=True)

    return outcome


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Seconds to wait by a `Retry-After` (RFC 9110, 10.2.3: seconds or a date), between 1 s and 10 min.

    None, so the normal backoff, for what makes no sense: garbage, a negative number, a date in the past.
    """
    text = (value or "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text, re.ASCII):
        seconds = float(text)
    else:
        seconds = _seconds_until(text, now)
        if seconds <= 0:
            return None
    return min(max(seconds, RETRY_AFTER_S_MIN), RETRY_AFTER_S_MAX)


def _seconds_until(text: str, now: datetime) -> float:
    try:
        at = parsedate_to_datetime(text)
        return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0


def message_id_of(value: object) -> str | None:
    """The id, when it is one: a line of text with something in it. Anything else proves no acceptance."""
    if not isinstance(value, str) or not value.strip() or len(value) > MESSAGE_ID_CHARS_MAX:
        return None
    return value if value.isprintable() else None
