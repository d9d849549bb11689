"""The Events page in a real Chromium: opening by id, addresses, words of strangers, reveals, an absent database (UI-01, UI-16, UI-18)."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from playwright.sync_api import Page, expect

from ledger.embedded import Cluster
from tests.browser.conftest import Hall
from tests.browser.stage import WAIT_MS, settled
from tests.fix_events import Ledger
from tests.fix_story import told

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]


def test_a_row_opens_what_it_shows_although_newer_ones_came(hall: Hall, visit: Visit) -> None:
    book = Ledger(hall.database)
    ids = sorted(book.stored("row 1", "row 2", "row 3", type="rows"))
    page = visit(hall, "/events?type=rows", ready="[data-testid='stDataFrame'] canvas")
    book.stored("row 4", "row 5", type="rows")  # positions move; ids do not
    box = page.locator("[data-testid='stDataFrame'] canvas").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 17, box["y"] + 35 + 38 * 2.5)  # the last of three rows
    expect(page.get_by_role("heading", name="rows from shop: waits")).to_be_visible(timeout=WAIT_MS)
    assert page.url.endswith(f"/events?type=rows&event={ids[0]}")
    page.get_by_role("button", name="All events").click()
    expect(page.get_by_text("5 events fit.")).to_be_visible(timeout=WAIT_MS)


def test_an_event_leads_to_its_send_and_back(hall: Hall, visit: Visit) -> None:
    made = told(hall.house)
    page = visit(hall, f"/events?event={made.done}", ready="h1.nt-h1")
    page.get_by_role("link", name=f"Receipt {made.send} in Review").click()
    expect(page.get_by_role("heading", name="Receipt to ana.ruiz@example.com")).to_be_visible(timeout=WAIT_MS)
    settled(page)  # what is pressed while a page is still drawn may be drawn anew under the pointer
    page.get_by_text("The event behind it").click()
    settled(page)
    page.get_by_role("link", name="Its whole story").press("Enter")  # what unfolds moves under the pointer
    expect(page.get_by_role("heading", name="done in 6.4 s, delivered 4 times")).to_be_visible(
        timeout=WAIT_MS
    )


def test_filters_stand_in_the_address_and_typed_keys_do_not(hall: Hall, visit: Visit) -> None:
    Ledger(hall.database).stored("own 1", "own 2", type="owned")
    page = visit(hall, "/events?type=owned")
    expect(page.get_by_text("2 events fit.")).to_be_visible(timeout=WAIT_MS)
    page.get_by_label("Key or number").fill("own 2")
    page.get_by_label("Key or number").press("Enter")
    expect(page.get_by_text("1 event fits.")).to_be_visible(timeout=WAIT_MS)
    assert page.url.endswith("/events?type=owned")
    page.get_by_label("Type", exact=True).fill("nobody's")
    page.get_by_label("Type", exact=True).press("Enter")
    expect(page.get_by_text("No event fits.")).to_be_visible(timeout=WAIT_MS)
    page.get_by_role("button", name="Show all events").click()
    page.wait_for_url("**/events")


def test_pages_follow_each_other_by_where_the_last_one_ended(hall: Hall, visit: Visit) -> None:
    ids = sorted(Ledger(hall.database).stored(*(f"evt_{n:03}" for n in range(60)), type="sixty"))
    page = visit(hall, "/events?type=sixty")
    page.get_by_role("button", name="Next 25").click()
    expect(page.get_by_role("button", name="Previous 25")).to_be_visible(timeout=WAIT_MS)
    page.get_by_role("button", name="Next 25").click()
    expect(page.get_by_role("button", name="Next 25")).to_be_hidden(timeout=WAIT_MS)
    page.get_by_role("button", name="Open the first").click()
    page.wait_for_url(f"**/events?type=sixty&event={ids[9]}", timeout=WAIT_MS)


def test_ui_16_what_one_was_shown_another_is_not(hall: Hall, visit: Visit) -> None:
    (event,) = Ledger(hall.database).stored("evt_secret", body=b'{"secret": "only for Ana"}')
    ana = visit(hall, f"/events?event={event}", ready="h1.nt-h1")
    ana.get_by_role("button", name="Show the content").click()
    expect(ana.get_by_text("only for Ana")).to_be_visible(timeout=WAIT_MS)
    ana.get_by_role("button", name="Act as Eva Horn").click()
    expect(ana.get_by_label("Why do you read it?")).to_be_visible(timeout=WAIT_MS)
    assert ana.get_by_text("only for Ana").count() == 0
    other = visit(hall, f"/events?event={event}", ready="h1.nt-h1")
    assert other.get_by_text("only for Ana").count() == 0


def test_the_list_stays_when_the_database_goes_and_heals_by_itself(
    cluster: Cluster, alone: Hall, visit: Visit
) -> None:
    told(alone.house)
    page = visit(alone, "/events")
    expect(page.get_by_text("6 events have arrived.")).to_be_visible(timeout=WAIT_MS)
    name = alone.database.engine.url.database
    alone.database.close()
    with psycopg.connect(
        host=str(cluster.socket), port=5432, user="postgres", dbname="postgres", autocommit=True
    ) as admin:
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        expect(page.get_by_text("The database cannot be reached since")).to_be_visible(timeout=WAIT_MS)
        expect(page.get_by_text("6 events have arrived.")).to_be_visible()
        page.get_by_role("button", name="Read again").click()
        expect(page.get_by_text("6 events have arrived.")).to_be_hidden(timeout=WAIT_MS)
        assert page.locator("[data-testid='stException']").count() == 0
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    expect(page.get_by_text("6 events have arrived.")).to_be_visible(timeout=WAIT_MS)


def test_one_list_too_slow_says_so_and_the_page_stays(hall: Hall, visit: Visit) -> None:
    """A table that somebody else holds locked is as slow as a table that is too large."""
    Ledger(hall.database).stored("slow", type="slow")
    page = visit(hall, "/events?type=slow")
    expect(page.get_by_text("1 event fits.")).to_be_visible(timeout=WAIT_MS)
    with hall.database.engine.connect() as other:
        other.exec_driver_sql("LOCK TABLE nottwice.duplicates IN ACCESS EXCLUSIVE MODE")
        page.get_by_role("button", name="Read again").click()
        expect(page.get_by_text("This took longer than 2 s and was stopped.")).to_be_visible(timeout=WAIT_MS)
        expect(page.get_by_text("Quarantine ·")).to_be_visible()
        other.rollback()
    page.get_by_role("button", name="Read again").click()
    expect(page.get_by_text("1 event fits.")).to_be_visible(timeout=WAIT_MS)
