"""The figures are what they say: rounds in turn, medians, ratios, percentiles."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.benchmarks.__main__ import BENCHES
from tests.benchmarks.report import compare
from tests.benchmarks.stage import percentile


def counted(log: list[str], name: str, values: list[float]) -> Callable[[], float]:
    def run() -> float:
        log.append(name)
        return values[log.count(name) - 1]

    return run


def test_ours_and_the_others_take_turns_and_medians_are_compared() -> None:
    log: list[str] = []
    ours = counted(log, "ours", [10, 50, 30, 20, 40])
    peers = {"A": counted(log, "A", [5, 5, 20, 90, 15]), "B": counted(log, "B", [60] * 5)}
    found = compare("drain", "events/s", ours, peers)
    assert log == ["A", "B", "ours"] * 5
    assert (found["ours"], found["baseline"], found["ratio"], found["peer"]) == (30, 15, 2.0, "A")
    assert found["others"] == {"B": {"baseline": 60, "ratio": 0.5}}


@pytest.mark.parametrize(("share", "value"), [(0.95, 95), (0.5, 50), (0.951, 96), (1.0, 100), (0.0, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, value: int) -> None:
    assert percentile(range(100, 0, -1), share) == value


def test_an_unknown_benchmark_is_refused_by_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", "drian"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and done.stdout == ""
    assert f"there is no benchmark drian; there are {', '.join(BENCHES)}." in done.stderr
