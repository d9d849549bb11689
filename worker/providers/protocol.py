"""What a provider is to the worker: a stored request in, an outcome out, never an exception for what the wire does."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar

from ledger.records import ClaimedAction, InFlight, NotSent, Outcome, Refused, Unknown

T = TypeVar("T")
RETRY_AFTER_S_MAX = 600.0


class Provider(Protocol):
    """An account at a provider. `send` makes exactly one request and says what is known of it."""

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome: ...


class DeadlineOver(Exception):
    """The call took longer than its total deadline; what came of it is unknown."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of a provider's outcome table: what a status (and, where given, a code) means."""

    status: int
    outcome: type[Refused] | type[NotSent] | type[InFlight]
    code: str = ""
    pauses: bool = False


def classify(
    table: tuple[Rule, ...], status: int, code: str, words: str, retry_after: str | None = None
) -> Outcome:
    """The outcome of an answer by the table: the row with the code first, then the one without. No row: unknown."""
    rows = [rule for rule in table if rule.status == status and rule.code in ("", code)]
    rule = max(rows, key=lambda r: bool(r.code), default=None)
    reason = one_line(f"{status} {code}: {words}")[:500]
    if rule is None:
        return Unknown(reason, code)
    if rule.outcome is NotSent:
        return NotSent(reason, code, retry_after_s(retry_after, datetime.now(UTC)), rule.pauses)
    return rule.outcome(reason, code)


def within(deadline_s: float, call: Callable[[], T]) -> T:
    """The result of `call`, or DeadlineOver. The published clients bound each read, so a dripping answer could hold

    a call for ever; the thread is left behind then, and ends with its own timeouts.
    """
    results: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put((True, call()))
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            results.put((False, error))

    threading.Thread(target=run, name="call", daemon=True).start()
    try:
        good, result = results.get(timeout=deadline_s)
    except queue.Empty:
        raise DeadlineOver(f"no answer within {deadline_s:g} s") from None
    if good:
        return result  # type: ignore[no-any-return]
    raise result


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Seconds to wait, from a Retry-After of any spelling, at most ten minutes; None for what makes no sense."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _until(value, now)
    if seconds != seconds or seconds <= 0:
        return None
    return min(seconds, RETRY_AFTER_S_MAX)


def _until(value: str, now: datetime) -> float:
    try:
        at = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError):
        return 0.0
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()


def request_of(action: ClaimedAction) -> Mapping[str, Any]:
    """The stored request, as it was rendered."""
    content: Mapping[str, Any] = json.loads(action.content)
    return content


def one_line(text: str) -> str:
    """Text that goes into a header: no line break can start another one."""
    return " ".join(text.split())


def message_id_of(value: object) -> str | None:
    """A well-formed message id: text with something in it. Anything else is no proof of acceptance."""
    is_id = isinstance(value, str) and value.strip() and value != "None" and len(value) <= 1000
    return str(value) if is_id else None
