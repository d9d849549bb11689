"""A catch-up from what a provider lists: page by page, oldest first. Only what the ledger does not know is fetched whole."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ledger.catch_up.place import Place
from ledger.catch_up.talk import Child
from ledger.errors import Unavailable
from ledger.running.processes import environment, module
from ledger.settings import Settings

if TYPE_CHECKING:
    from ledger.catch_up import Advance, Report

# Whether a provider's bounds belong to what they bound is not published: asked for with room, and looked at here.
ROOM = timedelta(seconds=1)
STORED_AT_ONCE = 20  # so that a stop loses few messages that were fetched
WAITS_S = (1.0, 2.0, 4.0, 8.0)  # for a provider that does not answer, or says when to come back
WAIT_S_MAX = 60.0

Message = dict[str, Any]  # as the lister tells it: inbox_id, message_id, timestamp
DealWith = Callable[[Sequence[Message]], None]
BESIDE = ("others", "unreadable")  # what a page names beside mail, each by its time


class Listing:
    """One inbox, from a time on."""

    def __init__(self, settings: Settings, door: Child, begun: dict[str, Any]) -> None:
        self._settings, self._door, self._begun = settings, door, begun
        self._keeps_place = False

    def run(self, door: Child, begun: dict[str, Any], report: Report, advance: Advance) -> None:
        self._report, self._advance = report, advance
        with Child(module("worker.catch_up"), environment(self._settings)) as lister:
            self._lister = lister
            lister.ask("begin", source=report.wanted.source)
            if not self._is_too_early():
                self._keeps_place = report.wanted.go
                self._pages(self._place(), self._take_in if report.wanted.go else self._look)

    def _place(self) -> Place:
        """Where to begin: as asked, or where this command was stopped."""
        wanted, run = self._report.wanted, self._begun["run"]
        assert wanted.since is not None  # noqa: S101 - for the type checker: the command asks for it
        place = Place(wanted.since, run and run["position"])
        if place.goes_on:
            self._report.went_on = f"after the messages of {place.start.isoformat()[:19]}"
        return place

    def _is_too_early(self) -> bool:
        """Whether it is refused: then what is older than keys are kept is only counted."""
        report = self._report
        if not (report.wanted.go and report.is_too_early):
            return False
        assert report.wanted.since is not None  # noqa: S101 - for the type checker: it is too early
        report.counts.clear()  # of what was refused alone, whatever an earlier run counted
        self._pages(Place(report.wanted.since), self._look, until=report.horizon)
        report.refused = True
        return True

    # ── Pages ─────────────────────────────────────────────────────────────────────────────────────────

    def _pages(self, place: Place, deal_with: DealWith, until: datetime | None = None) -> None:
        wanted, token, seen = self._report.wanted, "", set[str]()
        before = until or wanted.until
        bounds = {
            "after": (place.start - ROOM).isoformat(),
            "before": (before + ROOM).isoformat() if before else "",
        }
        while True:
            page = self._asked("page", inbox=wanted.inbox, token=token, **bounds)
            self._deal_with_page(page, place, before, deal_with)
            token = page["token"]
            if not token:
                return
            if token in seen:
                raise Unavailable(
                    "The provider's pages go in circles, so there is no telling what is missing."
                )
            seen.add(token)

    def _deal_with_page(
        self, page: Message, place: Place, before: datetime | None, deal_with: DealWith
    ) -> None:
        """In parts, each counted with its place, so that what a stop cuts off is counted when it is read again."""
        mail, beside = _ahead(page, place, before)
        for first in range(0, len(mail), STORED_AT_ONCE):
            part = mail[first : first + STORED_AT_ONCE]
            deal_with(part)
            place.go_past((_at(message), message["message_id"]) for message in part)
            self._count([name for name, at in beside if place.has_passed(at)])
            beside = [(name, at) for name, at in beside if not place.has_passed(at)]
            self._save(place)
        self._count([name for name, _ in beside])
        newest = mail[-1]["timestamp"][:19] if mail else ""
        self._advance(self._report.messages, None, f"messages until {newest}" if newest else "")

    def _count(self, beside: Sequence[str]) -> None:
        for name in beside:
            if name == "unreadable":
                self._report.note("a message", name, "The list names it without an id or a time.")
            else:
                self._report.counts[name] += 1

    def _save(self, place: Place) -> None:
        position = place.kept()
        if self._keeps_place and position:
            self._door.ask("save", position=position, counts=self._report.counts)

    def _look(self, mail: Sequence[Message]) -> None:
        for message, one in zip(mail, self._looked_at(mail), strict=True):
            self._report.note(message["message_id"], one["became"], one["reason"], old=one["old"])

    def _looked_at(self, mail: Sequence[Message]) -> list[dict[str, Any]]:
        bodies = [json.dumps(message).encode() for message in mail]
        found: list[dict[str, Any]] = (
            self._door.ask("look", bodies, form="listing")["found"] if bodies else []
        )
        return found

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

    def _fetched(self, message: Message) -> bytes | None:
        answer = self._asked("message", inbox=message["inbox_id"], message_id=message["message_id"])
        if answer["message"] is None:
            self._report.note(message["message_id"], "gone", "It was listed, and is not there any more.")
            return None
        return str(answer["message"]).encode()

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


def _ahead(
    page: Message, place: Place, before: datetime | None
) -> tuple[list[Message], list[tuple[str, datetime | None]]]:
    """Of a page what was not counted yet: mail, and what stands beside it."""
    mail = [m for m in page["mail"] if _is_before(_at(m), before)]
    beside = [(name, _time(text)) for name in BESIDE for text in page[name]]
    return (
        [m for m in mail if place.is_ahead(_at(m), m["message_id"])],
        [(name, at) for name, at in beside if place.is_ahead(at) and _is_before(at, before)],
    )


def _is_before(at: datetime | None, before: datetime | None) -> bool:
    return at is None or before is None or at < before


def _at(message: Message) -> datetime:
    return datetime.fromisoformat(message["timestamp"])


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
