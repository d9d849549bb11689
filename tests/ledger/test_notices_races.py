"""A webhook and the record of the sending it is about, at the same instant: fifty rounds each, neither looks too early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ledger.records import Accepted, Unknown
from ledger.states import ActionState
from tests.fix_events import Crowd
from tests.fix_notices import Provider
from tests.fix_sends import EMAIL, KEYLESS, Sends

ROUNDS = 50
S = ActionState


def test_the_record_and_the_notice_of_one_message(
    sends: Sends, provider: Provider, crowd: Callable[[int], Crowd]
) -> None:
    both = crowd(2)
    for n in range(ROUNDS):
        action_id, attempt = sends.proposed(KEYLESS), sends.started(sends.claimed())
        notice, event = provider.notice("delivered", f"m-{n}"), provider.event()
        answered, _ = both.at_once(
            [
                lambda: sends.answered(attempt, Accepted(f"<m-{n}>")),  # noqa: B023
                lambda: provider.keep(notice, event),  # noqa: B023
            ]
        )
        assert answered is S.SENT
        assert [one.now.what for one in provider.shown(action_id)] == ["delivered"]


def test_a_lost_answer_and_a_notice_with_our_mark(
    sends: Sends, provider: Provider, crowd: Callable[[int], Crowd]
) -> None:
    both = crowd(2)
    for n in range(ROUNDS):
        sends.sql("DELETE FROM nottwice.provider_pauses")
        action_id, attempt = sends.proposed(KEYLESS), sends.started(sends.claimed())
        notice = provider.notice("sent", f"m-{n}", reference=sends.row(action_id).reference)
        event = provider.event()
        _, about = both.at_once(
            [
                lambda: sends.answered(attempt, Unknown("no answer")),  # noqa: B023
                lambda: provider.keep(notice, event),  # noqa: B023
            ]
        )
        assert about == action_id
        assert sends.state(action_id) is S.SENT


def test_a_lost_answer_and_a_notice_without_it(
    sends: Sends, provider: Provider, crowd: Callable[[int], Crowd]
) -> None:
    """Whoever is first, and however many look for hints at once: one hint."""
    four = crowd(4)
    for n in range(ROUNDS):
        sends.sql("DELETE FROM nottwice.provider_pauses")
        email = replace(EMAIL, to=(f"P{n} <p{n}@example.com>",))
        action_id, attempt = sends.proposed(KEYLESS, email=email), sends.started(sends.claimed())
        notice, event = provider.notice("delivered", f"m-{n}", f"p{n}@example.com"), provider.event()
        four.at_once(
            [
                lambda: sends.answered(attempt, Unknown("no answer")),  # noqa: B023
                lambda: provider.keep(notice, event),  # noqa: B023
                provider.give_hints,
                provider.give_hints,
            ]
        )
        four.at_once([provider.give_hints] * 4)
        assert [e[1:] for e in provider.evidence(action_id)] == [("sent", False, f"m-{n}")]
        assert sends.state(action_id) is S.NEEDS_REVIEW
