"""The boundaries that are struck: counted in lives that nobody strikes, and shared out among tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import pairwise

from tests.failures.boundaries import Boundary
from tests.failures.ground import Life

ALL = "TESTS_EVERY_ROAD"  # in the environment: every road to a statement, and both ends of each step


def counted(one: Callable[[], Life]) -> tuple[Life, Life]:
    """Two lives that nobody strikes."""
    lives = (one(), one())
    for life in lives:
        assert life.child.wait() == 0, life.child.said()
    return lives


def roads(lives: tuple[Life, Life], since: str = "") -> list[Boundary]:
    """The boundaries that both met, or those after something they said: no road that is chance."""
    first, second = (life.child.ledger.read(since=since) for life in lives)
    known = {b.road for b in second}
    return [b for b in first if b.road in known]


def one_road_each(boundaries: Iterable[Boundary]) -> list[Boundary]:
    """Of the roads that lead to a statement the first, unless all of them were asked for."""
    found = list(boundaries)
    if os.environ.get(ALL):
        return found
    return list({(b.text, b.when): b for b in reversed(found)}.values())[::-1]


def moments(boundaries: Iterable[Boundary]) -> list[Boundary]:
    """One road to each, without the end of a step when its thread is struck ahead of the next, which follows at once.

    Nothing is exchanged in between, by any thread: to everybody else the two are one moment.
    """
    found = list(boundaries)
    if os.environ.get(ALL):
        return found
    struck = one_road_each(found)
    same = {
        one
        for one, following in pairwise(found)
        if (one.when, following.when, one.by) == ("after", "before", following.by) and following in struck
    }
    return [one for one in struck if one not in same]


def of_part(boundaries: Iterable[Boundary], part: int, parts: int) -> list[Boundary]:
    """A share of them, by their statement: all roads that lead to one are in the same part."""
    return [b for b in boundaries if int(b.text, 16) % parts == part]
