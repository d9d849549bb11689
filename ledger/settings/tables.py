"""The whole configuration file, and its table about alerts."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import Field, model_validator

from ledger.event_types import OURS
from ledger.settings.actions import ActionSettings as ActionSettings
from ledger.settings.actions import refuse_forgetful_keys, refuse_shared_keys
from ledger.settings.processes import (
    ConsoleSettings,
    DatabaseSettings,
    ReceiverSettings,
    ReprocessSettings,
    SupervisorSettings,
    WorkerSettings,
)
from ledger.settings.providers import ProviderSettings, refuse_shared_accounts
from ledger.settings.retention import RetentionSettings
from ledger.settings.sources import SourceSettings
from ledger.settings.types import COUNT_MAX, Name, Number, PositiveSeconds, Seconds, Table, wrong

# Of a stop, for what comes after worker and receiver: a second each for console, sandbox and the way from one to the next.
STOP_AFTERWARDS_S = 3.0
URL_SAFE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class AlertSettings(Table):
    """`[alerts]`: from when `nottwice check` calls something late, and how many of a thing are still in order."""

    pending_s: PositiveSeconds = 300.0  # due work and sends
    unsettled_s: PositiveSeconds = 3600.0  # what waits for a person
    worker_silent_s: PositiveSeconds = 60.0
    lease_over_s: Seconds = 30.0  # how long after its end a lease may wait for the sweep
    unsealed_s: PositiveSeconds = 60.0
    unpruned_s: PositiveSeconds = 86_400.0  # what is over its time in [retention] and is still there
    critical_times: Annotated[float, Field(ge=1, le=COUNT_MAX, allow_inf_nan=False)] = (
        5.0  # what is this often over its limit
    )
    failed_max: Number = 0
    unhandled_max: Number = 0
    conflicts_max: Number = 0
    quarantined_max: Number = 0
    endpoints_unknown_s: PositiveSeconds = 3600.0  # since a provider last said whether our endpoints are on
    refused_max: Number = 10  # requests of one source, for one reason, in an hour
    transaction_s: PositiveSeconds = 300.0  # how long a transaction of this database may stay open
    dead_rows_max: Number = 100_000  # of one table, and twice what vacuum begins at
    clock_s: PositiveSeconds = 5.0  # between a host's clock and the database's
    growth_mb_max: Number = 10_000  # that a day may add to the ledger


class Tables(Table):
    """The whole file."""

    sources: dict[Name, SourceSettings] = Field(default={})
    providers: dict[Name, ProviderSettings] = Field(default={})
    actions: dict[Name, ActionSettings] = Field(default={})
    worker: WorkerSettings = WorkerSettings()
    receiver: ReceiverSettings = ReceiverSettings()
    console: ConsoleSettings = ConsoleSettings()
    database: DatabaseSettings = DatabaseSettings()
    reprocess: ReprocessSettings = ReprocessSettings()
    supervisor: SupervisorSettings = SupervisorSettings()
    alerts: AlertSettings = AlertSettings()
    retention: RetentionSettings = RetentionSettings()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name, source in self.sources.items():
            if not URL_SAFE.fullmatch(name):
                raise wrong(("sources", name), "stands in an address: use letters, digits, - and _")
            if name == OURS:
                raise wrong(("sources", name), "is the name of what the ledger itself tells; choose another")
            if source.provider and source.provider not in self.providers:
                known = ", ".join(self.providers) or "none"
                raise wrong(
                    ("sources", name, "provider"),
                    f"names [providers.{source.provider}], which is not there; known are: {known}",
                )
        for kind, action in self.actions.items():
            if action.provider not in self.providers:
                known = ", ".join(self.providers) or "none"
                raise wrong(
                    ("actions", kind, "provider"),
                    f"names [providers.{action.provider}], which is not there; known are: {known}",
                )
        refuse_shared_accounts(self.providers)
        refuse_shared_keys(self.actions)
        refuse_forgetful_keys(self.actions, self.retention)
        for name, provider in self.providers.items():
            needed = provider.timeout_s + self.worker.lease_s
            if provider.window_s is not None and provider.margin_s < needed:
                raise wrong(
                    ("providers", name, "margin_s"),
                    f"is {provider.margin_s:g}; it must cover timeout_s and a lease, together {needed:g}",
                )
        return self

    @property
    def once_ever(self) -> tuple[str, ...]:
        """The kinds of action whose keys are kept for good."""
        return tuple(kind for kind, action in self.actions.items() if action.once_ever)

    @model_validator(mode="after")
    def _leaves_time_to_stop(self) -> Self:
        """Workers end before the receiver does: what the supervisor waits must hold both, else it kills them in it."""
        needed = self.worker.grace_s + self.receiver.grace_s + STOP_AFTERWARDS_S
        if self.supervisor.stop_within_s < needed:
            said = [n for n in ("worker", "receiver") if "grace_s" in getattr(self, n).model_fields_set]
            raise wrong(
                (said[0], "grace_s") if said else ("supervisor", "stop_within_s"),
                f"does not fit: [supervisor] stop_within_s is {self.supervisor.stop_within_s:g} and must cover "
                f"[worker] grace_s, [receiver] grace_s and {STOP_AFTERWARDS_S:g} s for the rest, together {needed:g}",
            )
        return self
