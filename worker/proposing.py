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
        if not isinstance(content, (Email, Mapping)):
            raise TypeError(
                f"propose() takes an Email or a mapping as its third argument, not {type(content).__name__}"
            )
        to = recipients or (content.to + content.cc + content.bcc if isinstance(content, Email) else ())
        stored = content.content() if isinstance(content, Email) else content
        rules = self.settings.rules(kind)
        proposal = Proposal(
            self.event.namespace, key, rules, stored, tuple(to), about, self.event.id, at or self.event.at
        )
        proposed = actions.propose(self.tx, proposal)
        self.made.append((kind, proposed))
        return proposed
