"""Notices as the worker keeps them, and what the console then shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from ledger import inbox
from ledger.evidence import hints, notices
from ledger.evidence.notices import Notice, What
from ledger.records import Delivery, Role, digest_of
from ledger.views import notices as views_notices
from ledger.views.notices import Standing

if TYPE_CHECKING:  # pytest wants to be the first that imports a file of fixtures
    from tests.fix_sends import Sends


@dataclass
class Provider:
    """A provider that says what became of messages. Times are seconds from now, as the provider tells them."""

    sends: Sends

    def event(self, source: str = "inboxili") -> int:
        key = uuid4().hex
        delivery = Delivery("acme", source, "delivered", key, digest_of(key), b"{}", digest_of(key))
        (accepted,) = self.sends.by_owner.run(lambda tx: inbox.accept(tx, [delivery], writer=uuid4()))
        assert accepted.event_id is not None
        return accepted.event_id

    def notice(
        self,
        what: str,
        message_id: str,
        *to: str,
        account: str = "inboxili",
        at_s: float = 0.0,
        reference: str | None = None,
        detail: str = "",
    ) -> Notice:
        at = self.now() + timedelta(seconds=at_s)
        return Notice(account, message_id, What(what), at, to or ("ann@example.com",), detail, reference)

    def keep(self, notice: Notice, event_id: int | None = None) -> int | None:
        event = event_id or self.event()
        return self.sends.by_worker.run(lambda tx: notices.keep(tx, notice, event_id=event))

    def says(self, what: str, message_id: str, *to: str, **more: object) -> int | None:
        """One event with one notice; the send it is known to be about."""
        return self.keep(self.notice(what, message_id, *to, **more))  # type: ignore[arg-type]

    def give_hints(self) -> int:
        return self.sends.by_worker.run(hints.give)

    def shown(self, action_id: int, role: Role = Role.SUPPORT) -> tuple[Standing, ...]:
        return self.sends.by_console.run(lambda tx: views_notices.of_action(tx, action_id), role=role)

    def evidence(self, action_id: int) -> list[tuple[str, str, bool, str | None]]:
        sql = "SELECT found, points_to, proof, message_id FROM nottwice.evidence WHERE action_id = :id ORDER BY id"
        return [tuple(row) for row in self.sends.rows(sql, id=action_id)]

    def now(self) -> datetime:
        at: datetime = self.sends.rows("SELECT now() AS at")[0].at
        return at


@pytest.fixture
def provider(sends: Sends) -> Provider:
    return Provider(sends)
