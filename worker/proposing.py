"""What an apply part is given to propose external actions with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ledger import actions
from ledger.action_keys import KeyValues
from ledger.database import Transaction
from ledger.records import Email, Event, Proposal, Proposed
from ledger.settings import Settings


@dataclass(frozen=True, slots=True)
class Propose:
    """What an apply part is given to propose external actions with: once per key, whoever proposes first."""

    tx: Transaction
    event: Event
    settings: Settings
    made: list[tuple[str, Proposed]] = field(default_factory=list)

    def __call__(
        self,
        kind: str,
        key: str | KeyValues,
        content: Email | Mapping[str, Any],
        *,
        recipients: tuple[str, ...] = (),
        about: str = "",
        at: datetime | None = None,
    ) -> Proposed:
        """`key`: the action key; for a kind that spells its keys, the values they are made of.

        `at` is when that happened which this is about: the event's own time (`event.at`) unless the handler knows better.
        """
        event, rules = self.event, self.settings.rules(kind)
        proposal = Proposal.of(
            event.namespace,
            key,
            rules,
            content,
            recipients=recipients,
            about=about,
            event_id=event.id,
            at=at or event.at,
        )
        proposed = actions.propose(self.tx, proposal)
        self.made.append((kind, proposed))
        return proposed
