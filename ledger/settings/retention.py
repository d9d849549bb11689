"""`[retention]`: how long finished rows keep what, in each namespace, and at what pace the rest is removed."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from ledger.settings.types import Count, Name, PositiveSeconds, Table, wrong

DAY_S = 86_400.0
Days = Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)]  # a hundred years are for good


class Periods(Table):
    """How long each thing is kept. What is not finished is kept whatever its age."""

    event_keys_days: Days = 31.0  # after receipt; providers deliver again for 28 days at most
    event_bodies_days: Days = 7.0  # after the event and its sends are settled
    quarantined_days: Days = 90.0  # after the same bytes came last
    action_contents_days: Days = 30.0  # after settling: text, recipients, whom notices name
    action_keys_days: Days = 400.0  # after settling, with all words; once-ever kinds for good


class NamespacePeriods(Table):
    """`[retention.namespaces.NAME]`: where one namespace differs from `[retention]`."""

    event_keys_days: Days | None = None
    event_bodies_days: Days | None = None
    quarantined_days: Days | None = None
    action_contents_days: Days | None = None
    action_keys_days: Days | None = None


class RetentionSettings(Periods):
    """`[retention]`: the periods of every namespace that has none of its own, and the worker's pace."""

    namespaces: dict[Name, NamespacePeriods] = Field(default={})
    round_every_s: PositiveSeconds = 600.0  # between two looks for what is over its time
    round_within_s: PositiveSeconds = 0.5  # of one look; the worker's other duties wait that long
    pause_s: PositiveSeconds = 5.0  # while more is left than fits into one
    batch_rows: Count = 200  # of one transaction, and
    batch_bytes_max: Count = 20_000_000  # of the contents that it removes

    def of(self, namespace: str) -> Periods:
        """What holds in one namespace."""
        own = self.namespaces.get(namespace)
        given = own.model_dump(exclude_none=True) if own else {}
        return Periods(**{name: given.get(name, getattr(self, name)) for name in Periods.model_fields})

    @property
    def keys_days_max(self) -> float:
        """How long action keys are kept where they are kept longest: for what belongs to no namespace."""
        return max(self.of(name).action_keys_days for name in ("", *self.namespaces))

    @property
    def keys_days_min(self) -> float:
        """How long action keys are kept where they are kept shortest."""
        return min(self.of(name).action_keys_days for name in ("", *self.namespaces))

    @model_validator(mode="after")
    def _outlives_the_event(self) -> Self:
        """Else a late replay, a new event by then, would send again."""
        for name in ("", *self.namespaces):
            kept = self.of(name)
            if kept.action_keys_days < kept.event_keys_days:
                raise wrong(
                    ("namespaces", name, "action_keys_days") if name else "action_keys_days",
                    f"is {kept.action_keys_days:g}, and event_keys_days {kept.event_keys_days:g}: the key of an action "
                    "outlives that of its event, else a late replay sends again",
                )
        return self
