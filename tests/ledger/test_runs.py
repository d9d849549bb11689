"""What a handler is told of its run."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from math import inf

import pytest

from ledger.records import Deadline, Mode, Run


def test_without_a_limit_there_is_all_the_time_of_the_world() -> None:
    assert Run().remaining_s() == inf
    assert not Run().deadline.is_over


def test_what_remains_is_counted_from_the_beginning_and_never_below_nothing() -> None:
    run = Run()
    run.deadline.begin(300)
    assert 200 < run.remaining_s() <= 300
    run.deadline.begin(-1)
    assert run.remaining_s() == 0 and run.deadline.is_over


def test_the_last_attempt_says_so() -> None:
    assert [Run(attempt=n, attempts_max=3).is_last_attempt for n in (1, 2, 3, 4)] == [
        False,
        False,
        True,
        True,
    ]


def test_a_run_is_a_value_and_travels_to_another_process() -> None:
    run = Run(Mode.RECOMPUTE, 2, 4, 9, Deadline(5.0))
    assert run == Run(Mode.RECOMPUTE, 2, 4, 9) and pickle.loads(pickle.dumps(run)).deadline.at == 5.0
    with pytest.raises(FrozenInstanceError):
        run.number = 3  # type: ignore[misc]
