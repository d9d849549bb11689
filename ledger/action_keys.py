"""An action's key as its kind's configuration spells it, `payment_failed:{subscription}:{period}`. Pure.

Two lists of parts never spell the same key: in each part `%` and `:` become `%25` and `%3A`, and a `:` stands between
any two parts. A key that holds neither sign is spelled as if it had been written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from string import Formatter
from uuid import UUID
from zoneinfo import ZoneInfo

from ledger.errors import UnusableKey

PART_CHARACTERS_MAX = 500
PERIOD = "period"
NAME = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
HOLE = "\x00"  # where a part goes, in a template's shape

Part = str | int | UUID
KeyValues = Mapping[str, Part]


class Period(StrEnum):
    """How often a kind may go out: once in each of these, as the calendar of its zone has them. Weeks are ISO 8601's."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


DAYS_MAX = {Period.DAY: 1, Period.WEEK: 7, Period.MONTH: 31, Period.QUARTER: 92, Period.YEAR: 366}


@dataclass(frozen=True)
class KeyTemplate:
    """How a kind's keys are spelled. Raises ValueError, in words, for one that could not tell two actions apart."""

    text: str
    period: Period | None = None
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if problem := next(_problems(self), None):
            raise ValueError(problem)

    @cached_property
    def pieces(self) -> tuple[tuple[str, str | None], ...]:
        """Each literal text with the name behind it; None behind the last."""
        found = []
        for literal, name, spec, conversion in Formatter().parse(self.text):
            if spec or conversion:
                raise ValueError(f"holds {{{name}…}}: a part stands there as it is, without a format")
            found.append((literal, name))
        return tuple(found)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.pieces if name is not None)

    @property
    def shape(self) -> list[str]:
        return "".join(literal + (HOLE if name is not None else "") for literal, name in self.pieces).split(
            ":"
        )

    def may_meet(self, other: KeyTemplate) -> bool:
        """Whether some key could be spelled by both."""
        ours, theirs = self.shape, other.shape
        return len(ours) == len(theirs) and all(
            one == another or HOLE in one + another for one, another in zip(ours, theirs, strict=True)
        )

    def fill(self, values: KeyValues, at: datetime | None) -> str:
        """The key of one action: its parts from `values`, its period from the time `at` in the zone.

        Raises UnusableKey for a part that is missing, empty or no text, whole number or UUID. More values than the key
        has are no mistake: which of them it uses is configuration.
        """
        if PERIOD in self.names and PERIOD in values:
            raise UnusableKey(
                f"The key {self.text} takes {{period}} from the event's time; leave it out of the values."
            )
        return "".join(
            literal + ("" if name is None else self._part(name, values, at)) for literal, name in self.pieces
        )

    def _part(self, name: str, values: KeyValues, at: datetime | None) -> str:
        if name == PERIOD:
            return self._period(at)
        if name not in values:
            given = ", ".join(sorted(map(str, values))) or "nothing"
            raise UnusableKey(
                f"The key {self.text} needs {name}, and the values are {given}. Nothing was proposed."
            )
        text = self._text(name, values[name])
        return text.replace("%", "%25").replace(":", "%3A")

    def _text(self, name: str, value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | UUID):
            what = "nothing (None)" if value is None else f"of the type {type(value).__name__}"
            raise UnusableKey(
                f"The key {self.text}: {name} is {what}. Give a text, a whole number or a UUID."
            )
        text = str(value)
        if not text.strip():
            raise UnusableKey(
                f"The key {self.text}: {name} is empty, so all without one would be one. Nothing was proposed."
            )
        if len(text) > PART_CHARACTERS_MAX:
            raise UnusableKey(
                f"The key {self.text}: {name} has {len(text)} characters, and {PART_CHARACTERS_MAX} is the most."
            )
        return text

    def _period(self, at: datetime | None) -> str:
        if at is None or at.tzinfo is None:
            raise UnusableKey(
                f"The key {self.text} names a period, so it needs the time of what happened: `at=`, a datetime with its "
                "zone. Now is no such time: the same thing proposed tomorrow would go out again."
            )
        try:
            return period_of(self.period or Period.DAY, at, self.zone)
        except OverflowError:
            raise UnusableKey(
                f"The key {self.text}: the event's time is at the end of the calendar."
            ) from None


def period_of(period: Period, at: datetime, zone: str) -> str:
    """`2026-11-30`, `2026-W49` (with ISO's year), `2026-11`, `2026-Q4` or `2026`: as the clocks of the zone show it."""
    local = at.astimezone(ZoneInfo(zone))
    year, week, _ = local.isocalendar()
    return {
        Period.DAY: f"{local:%Y-%m-%d}",
        Period.WEEK: f"{year:04}-W{week:02}",
        Period.MONTH: f"{local:%Y-%m}",
        Period.QUARTER: f"{local:%Y}-Q{(local.month + 2) // 3}",
        Period.YEAR: f"{local:%Y}",
    }[period]


def _problems(template: KeyTemplate) -> Iterator[str]:
    try:
        pieces = template.pieces
    except ValueError as error:
        yield str(error) if str(error).startswith("holds") else f"is no key: {error}"
        return
    yield from (_wrong_name(name) for name in template.names if not NAME.fullmatch(name))
    if not template.names:
        yield "names no part like {user}: it would be one key for everybody"
    if pieces and (not pieces[0][0].endswith(":") or not pieces[0][0].strip(": ")):
        yield "must begin with a word of its own and a colon, like welcome:{user}"
    for literal, name in pieces[1:]:
        if name is not None and ":" not in literal:
            yield f"has no colon before {{{name}}}: a and bc would be the same as ab and c"
    if PERIOD in template.names and template.period is None:
        yield "names {period}, so say which: period = day, week, month, quarter or year"


def _wrong_name(name: str) -> str:
    return f"holds {{{name}}}: a part is called by small letters, digits and _"
