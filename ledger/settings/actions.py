"""`[actions.KIND]`: what holds for one kind of what goes out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, model_validator

from ledger.action_keys import DAYS_MAX, KeyTemplate, Period
from ledger.records import Policy, Rate
from ledger.settings.retention import RetentionSettings
from ledger.settings.types import COUNT_MAX, Name, PositiveSeconds, Seconds, Span, Table, seconds_of, wrong


def _rate(value: Any) -> Any:
    """`3 per 1 d`."""
    most, word, span = value.partition("per") if isinstance(value, str) else ("", "", "")
    within_s = seconds_of(span) if word else None
    if within_s is None or not _is_count(most.strip()):
        raise wrong((), 'is no rate; write how many in what time, like "3 per 1 d" (s, min, h, d)')
    return {"most": int(most), "within_s": within_s}


def _is_count(text: str) -> bool:
    """The length first: Python reads no number of thousands of digits."""
    return text.isdecimal() and len(text) <= len(str(COUNT_MAX)) and 1 <= int(text) <= COUNT_MAX


class ActionSettings(Table):
    """`[actions.KIND]`: by which provider a kind goes, and what happens when nobody can know.

    `cost` and `cost_reason` are what a second e-mail of this kind would do, in the review desk's words. `key` spells its
    action keys; `{period}` in it is the `period` in which the event happened, by the calendar of `zone`.
    """

    provider: Name
    policy: Policy = Policy.REVIEW
    approval: bool = False
    evidence_s: Seconds = 300.0
    retry_for_s: PositiveSeconds = 86_400.0
    cost: Literal["high", "medium", "low"] = "high"
    cost_reason: str = ""
    once_ever: bool = False  # its keys are never given up: what went out once never goes out again
    key: str = ""
    period: Period | None = None
    zone: str = "UTC"
    send_before: Span | None = None  # after it was proposed, or after its event if that was sooner
    rate: Annotated[Rate | None, BeforeValidator(_rate)] = None  # "3 per 1 d": to one recipient
    tell_when_sent: bool = False  # makes the event `action.sent` of the source `nottwice`

    @property
    def template(self) -> KeyTemplate | None:
        return KeyTemplate(self.key, self.period, self.zone) if self.key else None

    @model_validator(mode="after")
    def _spells_keys(self) -> Self:
        try:
            template = self.template
        except ValueError as error:
            raise wrong("key", str(error)) from None
        if self.period is not None and (template is None or "period" not in template.names):
            raise wrong("period", "is set, and the key has no {period}; add it to key, or leave this out")
        if "zone" in self.model_fields_set and self.period is None:
            raise wrong("zone", "is the zone of a period, and this kind has none")
        _refuse_unknown_zone(self.zone)
        return self


def _refuse_unknown_zone(zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (LookupError, OSError, ValueError):  # not found, a folder, or no name of a zone
        raise wrong(
            "zone",
            "is no time zone that this machine knows; names are like Europe/Berlin (a machine without zones needs the package tzdata)",
        ) from None


def refuse_shared_keys(actions: Mapping[str, ActionSettings]) -> None:
    """Two kinds under one key would be one action: whichever comes second would never go out, and nobody would know."""
    templates = [(kind, action.template) for kind, action in actions.items() if action.template]
    for (first, one), (kind, other) in combinations(templates, 2):
        if one.may_meet(other):
            raise wrong(
                ("actions", kind, "key"),
                f"can be the same as a key of [actions.{first}]; begin each with a word of its own",
            )


def refuse_forgetful_keys(actions: Mapping[str, ActionSettings], retention: RetentionSettings) -> None:
    """A key that is given up within its period would let the kind go out twice in it."""
    for kind, action in actions.items():
        if action.period and not action.once_ever and retention.keys_days_min < DAYS_MAX[action.period]:
            raise wrong(
                ("actions", kind, "period"),
                f"is a {action.period}, and [retention] gives keys up after {retention.keys_days_min:g} days: keep "
                "action_keys_days as long, or say once_ever = true",
            )
