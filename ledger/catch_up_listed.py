"""A catch-up from what a provider lists: page by page, oldest first. Only what the ledger does not know is fetched whole."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ledger.catch_up_talk import Child
from ledger.errors import Unavailable
from ledger.processes import environment, module
from ledger.settings import Settings

if TYPE_CHECKING:
    from ledger.catch_up import Advance, Report

# Whether a provider's bounds belong to what they bound is not published: asked for with room, and looked at here.
ROOM = timedelta(seconds=1)
STORED_AT_ONCE = 20  # so that a stop loses few messages that were fetched
WAITS_S = (1.0, 2.0, 4.0, 8.0)  # for a provider that does not answer, or says when to come back
WAIT_S_MAX = 60.0

Message = dict[str, Any]  # as the lister tells it: inbox_id, message_id, timestamp


class Listing:
    """One inbox, from a time on."""

    def __init__(self, settings: Settings, door: Child, begun: dict[str, Any]) -> None:
        self._settings, self._door, self._begun = settings, door, begun
        self._newest = (
            ""  # of what was dealt with; "" when the list is not in order, and no place to go on from
        )

    def run(self, door: Child, begun: dict[str, Any], report: Report, advance: Advance) -> None:
        self._report, self._advance = report, advance
        with Child(module("worker.catch_up"), environment(self._settings)) as lister:
            self._lister = lister
            lister.ask("begin", source=report.wanted.source)
            if not self._is_too_early():
                self._newest = self._since()
                self._pages(self._newest, self._go if report.wanted.go else self._look)

    def _since(self) -> str:
        """Where to begin: as asked, or where this command was stopped."""
        wanted, run = self._report.wanted, self._begun["run"]
        if run and run["position"]:
            self._report.went_on = f"after the messages of {run['position']['newest'][:19]}"
            return str(run["position"]["newest"])
        assert wanted.since is not None  # noqa: S101 - for the type checker: the command asks for it
        return wanted.since.isoformat()

    def _is_too_early(self) -> bool:
        """Whether it is refused: then what is older than keys are kept is only counted."""
        report = self._report
        wanted, horizon = report.wanted, report.horizon
        if (
            not wanted.go
            or wanted.beyond
            or wanted.since is None
            or horizon is None
            or wanted.since >= horizon
        ):
            return False
        self._pages(wanted.since.isoformat(), self._look, until=horizon)
        report.refused = True
        return True

    # ── Pages ─────────────────────────────────────────────────────────────────────────────────────────

    def _pages(
        self, since: str, deal_with: Callable[[Sequence[Message]], None], until: datetime | None = None
    ) -> None:
        wanted, token, seen = self._report.wanted, "", set[str]()
        before = until or wanted.until
        bounds = {
            "after": (datetime.fromisoformat(since) - ROOM).isoformat(),
            "before": (before + ROOM).isoformat() if before else "",
        }
        while True:
            page = self._asked("page", inbox=wanted.inbox, token=token, **bounds)
            self._deal_with_page(page, since, before, deal_with)
            token = page["token"]
            if not token:
                return
            if token in seen:
                raise Unavailable(
                    "The provider's pages go in circles, so there is no telling what is missing."
                )
            seen.add(token)

    def _deal_with_page(
        self,
        page: Message,
        since: str,
        before: datetime | None,
        deal_with: Callable[[Sequence[Message]], None],
    ) -> None:
        report = self._report
        report.counts["others"] += page["others"]
        for _ in range(page["unreadable"]):
            report.note("a message", "unreadable", "The list names it without an id or a time.")
        first = datetime.fromisoformat(since)
        mail = [m for m in page["mail"] if _is_within(datetime.fromisoformat(m["timestamp"]), first, before)]
        report.counts["messages"] += len(mail)
        deal_with(mail)
        newest = mail[-1]["timestamp"][:19] if mail else ""
        self._advance(report.counts["messages"], None, f"messages until {newest}" if newest else "")

    def _look(self, mail: Sequence[Message]) -> None:
        for message, one in zip(mail, self._looked_at(mail), strict=True):
            self._report.note(message["message_id"], one["became"], one["reason"], old=one["old"])

    def _looked_at(self, mail: Sequence[Message]) -> list[dict[str, Any]]:
        bodies = [json.dumps(message).encode() for message in mail]
        found: list[dict[str, Any]] = (
            self._door.ask("look", bodies, form="listing")["found"] if bodies else []
        )
        return found

    def _go(self, mail: Sequence[Message]) -> None:
        for first in range(0, len(mail), STORED_AT_ONCE):
            self._take_in(mail[first : first + STORED_AT_ONCE])

    def _take_in(self, mail: Sequence[Message]) -> None:
        """What is known costs no request. Whatever is new when we look is judged again by the accepting transaction."""
        looked = list(zip(mail, self._looked_at(mail), strict=True))
        for message, one in looked:
            if one["became"] != "new":
                self._report.note(message["message_id"], one["became"], one["reason"])
        new = [
            (m["message_id"], body)
            for m, one in looked
            if one["became"] == "new" and (body := self._fetched(m))
        ]
        if new:
            found = self._door.ask("store", [body for _, body in new], form="message", beyond=True)["found"]
            for one in found:
                self._report.note(new[one["place"]][0], one["became"], one["reason"])
        self._save(mail)

    def _fetched(self, message: Message) -> bytes | None:
        answer = self._asked("message", inbox=message["inbox_id"], message_id=message["message_id"])
        if answer["message"] is None:
            self._report.note(message["message_id"], "gone", "It was listed, and is not there any more.")
            return None
        return str(answer["message"]).encode()

    def _save(self, mail: Sequence[Message]) -> None:
        for message in mail:
            self._newest = (
                message["timestamp"] if self._newest and message["timestamp"] >= self._newest else ""
            )
        if self._newest:
            self._door.ask("save", position={"newest": self._newest}, counts=self._report.counts)

    # ── The provider ──────────────────────────────────────────────────────────────────────────────────

    def _asked(self, what: str, **facts: Any) -> dict[str, Any]:
        """Asked again where that may help. Raises Unavailable with the provider's own reason."""
        for wait_s in (*WAITS_S, None):
            answer = self._lister.ask(what, **facts)
            if "unanswered" not in answer:
                return answer
            if answer["final"] or wait_s is None:
                raise Unavailable(answer["unanswered"])
            time.sleep(min(answer["retry_after_s"] or wait_s, WAIT_S_MAX))
        raise AssertionError("unreachable")


def _is_within(at: datetime, first: datetime, before: datetime | None) -> bool:
    return first <= at and (before is None or at < before)
