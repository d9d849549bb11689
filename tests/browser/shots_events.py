"""Pictures of events: none, many, one with its story, two contents under one key, and what became no event."""

from __future__ import annotations

from dataclasses import asdict

from playwright.sync_api import Page

from ledger.database import Database
from tests.browser.shots import Album, Ids, Shot
from tests.fix_seed import House
from tests.fix_story import told


def _show(page: Page) -> None:
    page.get_by_role("button", name="content").last.click()
    page.get_by_text("Shown to you at").first.wait_for()


def fill(database: Database, ids: Ids) -> None:
    ids |= {f"event_{name}": id_ for name, id_ in asdict(told(House(database))).items()}


ARRIVED, STORY, DIFFERS = "events have arrived", "What happened", "What differs"
DONE, CONFLICT = "/events?event={event_done}", "/events?conflict={event_conflict}"
EMPTY = (Shot("events-empty", "/events", "Nothing has arrived yet"),)
FULL = (
    Shot("events", "/events", ARRIVED),
    Shot("events-dark", "/events?source=billing", "events fit", dark=True),
    Shot("events-900", "/events", ARRIVED, width=900),
    Shot("events-none-fits", "/events?type=never", "No event fits"),
    Shot("event", DONE, STORY, whole=True),
    Shot("event-dark", "/events?event={event_set_aside}", STORY, dark=True, whole=True),
    Shot("event-900", DONE, STORY, width=900, whole=True),
    Shot("event-content", DONE, STORY, _show, whole=True),
    Shot("event-nothing", "/events?event=999999", "There is nothing here"),
    Shot("conflicts", "/events?show=conflicts", "came with other content"),
    Shot("conflict", CONFLICT, DIFFERS, whole=True),
    Shot("conflict-content", CONFLICT, DIFFERS, _show, whole=True),
    Shot("quarantine", "/events?show=quarantine", "in quarantine"),
    Shot("quarantined", "/events?quarantined={event_binary}", "that is no event", _show, dark=True),
)

ALBUMS = (Album(FULL, fill),)
EMPTY_ALBUMS = (Album(EMPTY),)
