"""What `nottwice catch-up` says: a look says what storing would do, and sums add up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger.catch_up import Report, Wanted
from ledger.cli.catch_up import _advice, _sum, _tell

HORIZON = datetime(2026, 11, 30, 6, tzinfo=UTC)


def report(*, since: datetime, go: bool = False, beyond: bool = False) -> Report:
    return Report(Wanted("mail", inbox="a@x", since=since, go=go, beyond=beyond), horizon=HORIZON)


def test_a_look_that_begins_too_early_says_that_storing_is_refused() -> None:
    early, late = HORIZON - timedelta(seconds=1), HORIZON
    assert [*_advice(report(since=early))] == [
        "With --go this is refused: --since is older than event keys are kept. Choose a later time, or say "
        "--beyond-retention too."
    ]
    for allowed in (report(since=late), report(since=early, beyond=True)):
        assert [*_advice(allowed)] == ["To take in what is new, say the same with --go."]
    assert [*_advice(report(since=late, go=True))] == []


def test_a_look_names_the_conflict_that_storing_would_keep(capsys: pytest.CaptureFixture[str]) -> None:
    for go, words in ((False, "would be kept"), (True, "is kept")):
        found = Report(Wanted("shop", file=Path("x"), go=go))
        found.note("line 1", "conflict")
        _tell(found)
        said = capsys.readouterr().out
        assert f"line 1: the key is known with other content; this one {words} as a conflict" in said
        assert "1 known with other content" in said


def test_the_messages_are_what_became_of_them() -> None:
    found = report(since=HORIZON, go=True)
    for became in ("accepted", "accepted", "duplicate", "gone", "unreadable", "known"):
        found.note("m", became, old=True)
    found.counts["others"] += 3
    assert (
        "Taken in: 6 messages of inbox a@x for mail: 2 new, 2 known, 1 unreadable, 1 gone meanwhile."
        in _sum(found)
    )
