"""Rounds in turn, medians, and the one line that a benchmark prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from statistics import median

Round = Callable[[], float]
ROUNDS = int(os.environ.get("ROUNDS", "5"))


def compare(
    bench: str, unit: str, ours: Round, peers: Mapping[str, Round], *, digits: int = 3
) -> dict[str, object]:
    """Ours and each peer in turn, ROUNDS times (5; the environment's ROUNDS says otherwise).

    The first peer is the baseline of `ratio`; the others stand under `others`. All rounds are kept beside the medians.
    """
    taken: dict[str, list[float]] = {name: [] for name in ("ours", *peers)}
    for number in range(ROUNDS):
        for name, run in {**peers, "ours": ours}.items():
            taken[name].append(run())
            say(f"{bench}, round {number + 1} of {ROUNDS}: {name} {taken[name][-1]:,.{digits}f} {unit}")
    medians = {name: median(values) for name, values in taken.items()}
    mine, (first, *others) = medians.pop("ours"), medians
    return {
        "bench": bench,
        "ours": round(mine, digits),
        "unit": unit,
        "baseline": round(medians[first], digits),
        "ratio": round(mine / medians[first], 3),
        "peer": first,
        "others": {
            name: {"baseline": round(medians[name], digits), "ratio": round(mine / medians[name], 3)}
            for name in others
        },
        "rounds": {name: [round(value, digits) for value in values] for name, values in taken.items()},
        "load": round(os.getloadavg()[0], 2),
    }


def say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)
