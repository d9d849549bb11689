"""What an apply part is given to propose external actions with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ledger import actions
from ledger.action_keys import KeyValues
from ledger.database import Transaction
from ledger.records import Email, Event, Mode, Proposal, Proposed
from ledger.reprocess import results as reprocess_results
from ledger.reprocess.results import Held
from ledger.settings import Settings


@dataclass(frozen=True, slots=True)
class Propose:
    """What an apply part is given to propose external actions with: once per key, whoever proposes first.

    When an event is worked again (`event.run.mode` is not `Mode.FIRST`) it creates none: it answers with the action that
    stands under the key, or with one that would be new, and keeps in `held` how the two compare.
    """

    tx: Transaction
    event: Event
    settings: Settings
    made: list[tuple[str, Proposed]] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)

    def __call__(
        self,
        kind: str,
        key: str | KeyValues,
        content: Email | Mapping[str, Any],
        *,
        recipients: tuple[str, ...] = (),
        about: str = "",
        at: datetime | None = None,
        send_before: datetime | None = None,
    ) -> Proposed:
        """`key`: the action key; for a kind that spells its keys, the values they are made of.

        `at` is when that happened which this is about: the event's own time (`event.at`) unless the handler knows better.
        From `send_before` on it is not sent any more, if its kind does not end sooner.
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
            send_before=send_before,
        )
        proposed = self._propose(proposal)
        self.made.append((kind, proposed))
        return proposed

    def _propose(self, proposal: Proposal) -> Proposed:
        if self.event.run.mode is Mode.FIRST:
            return actions.propose(self.tx, proposal)
        held = reprocess_results.hold_against(self.tx, proposal)
        self.held.append(held)
        return held.proposed
