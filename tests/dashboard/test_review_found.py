"""What one send's page says was found: in sentences, without the codes of programs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dashboard.screens.review_found import tried, was_answered
from ledger.records import Attempt, OutcomeKind

AT = datetime(2026, 11, 30, 9, 41, tzinfo=UTC)


def attempt(
    outcome: OutcomeKind | None, reason: str = "", code: str = "", *, abandoned: bool = False
) -> Attempt:
    return Attempt(1, "agentmail", AT, AT, outcome, abandoned, reason, code)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (
            attempt(
                OutcomeKind.UNKNOWN, "The answer was lost (TimeoutError); it may have been sent.", "lost"
            ),
            "The request left. The answer was lost (TimeoutError); it may have been sent.",
        ),
        (attempt(OutcomeKind.UNKNOWN, "no answer within 5 s"), "The request left. No answer within 5 s"),
        (attempt(OutcomeKind.UNKNOWN, "", "502"), "The request left. 502"),
        (attempt(OutcomeKind.UNKNOWN), "The request left; no clear answer came"),
        (attempt(None, abandoned=True), "Its worker was stopped before the answer"),
    ],
)
def test_a_try_is_told_in_sentences(one: Attempt, words: str) -> None:
    assert tried(one) == words


@pytest.mark.parametrize(
    ("code", "answered"),
    [
        ("502", True),
        ("dot 421", True),
        ("dot lost", False),
        ("lost", False),
        ("deadline", False),
        ("", False),
    ],
)
def test_no_answer_is_not_called_an_error_of_the_provider(code: str, answered: bool) -> None:
    assert was_answered(attempt(OutcomeKind.UNKNOWN, "", code)) is answered
