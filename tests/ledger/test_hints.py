"""What a hint says of itself: when it was, and whether others may be the same message."""

from __future__ import annotations

from ledger.decisions import adopting
from ledger.records import Role
from ledger.views import queue
from tests.fix_notices import Provider
from tests.fix_sends import KEYLESS, Sends


def found(provider: Provider, action_id: int) -> list[str]:
    return [words for words, *_ in provider.evidence(action_id)]


def test_a_notice_from_before_our_request_says_so(sends: Sends, provider: Provider) -> None:
    send = sends.uncertain(KEYLESS)
    provider.says("delivered", "<early@x>", at_s=-60.0)
    provider.says("delivered", "<late@x>", at_s=60.0)
    assert provider.give_hints() == 2
    early, late = sorted(found(provider, send), key=len, reverse=True)
    assert early.endswith(
        "UTC, before our request left: likely another one, unless the provider's clock is slow"
    )
    assert late.endswith(" UTC")


def test_a_hint_counts_the_other_sends_that_may_be_the_same_message(sends: Sends, provider: Provider) -> None:
    one, two, three = (sends.uncertain(KEYLESS) for _ in range(3))
    provider.says("delivered", "<m-1@x>")
    assert provider.give_hints() == 3

    def others(action_id: int) -> list[tuple[int, tuple[int, ...]]]:
        hints = sends.by_console.run(lambda tx: adopting.shared(tx, action_id), role=Role.SUPPORT)
        return [(hint.others, hint.rivals) for hint in hints]

    assert [others(one), others(two), others(three)] == [
        [(2, (two, three))],
        [(2, (one, three))],
        [(2, (one, two))],
    ]
    sends.sql("UPDATE nottwice.actions SET state = 'closed', review_since = NULL, settled_at = now() WHERE id = :id", id=two)  # fmt: skip
    assert others(one) == [(1, (three,))]


def test_the_queue_tells_what_may_have_gone_out(sends: Sends, provider: Provider) -> None:
    sends.uncertain(KEYLESS)
    read = lambda: sends.by_console.run(lambda tx: queue.queue(tx, "uncertain"), role=Role.SUPPORT)  # noqa: E731
    assert [row.points_to_sent for row in read()] == [False]
    provider.says("delivered", "<m-1@x>")
    provider.give_hints()
    assert [row.points_to_sent for row in read()] == [True]
