"""The audit in a real browser: the drawer, the check, the export, and words of strangers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Hall
from tests.browser.stage import WAIT_MS
from tests.fix_record import record
from tests.fix_seed import RECEIPT, mail

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]


def filled(hall: Hall) -> int:
    """Seven days of acts about one send; how many entries the record has now."""
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), about="INV-1042 paid")
    record(hall.database, [send], days=2)
    return exports(hall, act="%")


def exports(hall: Hall, act: str = "exported the record") -> int:
    sql = "SELECT count(*) AS n FROM nottwice.audit WHERE act LIKE :act"
    return int(hall.database.run(lambda tx: tx.one(sql, act=act)).n)


def pressed(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).first.click()


def test_an_entry_opens_beside_the_list_and_its_address_follows(hall: Hall, visit: Visit) -> None:
    filled(hall)
    page = visit(hall, "/audit", as_="Bo Lindqvist")
    pressed(page, "Open the newest")
    drawer = page.get_by_role("dialog")
    expect(drawer.get_by_text("Provider's own log")).to_be_visible(timeout=WAIT_MS)
    expect(drawer.get_by_text("Nobody knows whether it went out.")).to_be_visible()
    number = page.url.split("entry=")[1]
    pressed(page, "The one before")
    expect(drawer.get_by_text(f"Entry {int(number) - 1}")).to_be_visible(timeout=WAIT_MS)
    expect(drawer.get_by_text("asked a second person: send again with a new key")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    expect(drawer).to_be_hidden(timeout=WAIT_MS)
    page.wait_for_function("() => !location.search.includes('entry')", timeout=WAIT_MS)
    page.goto(f"{hall.url}/audit?entry={number}")
    expect(drawer.get_by_text("Entry")).to_be_visible(timeout=WAIT_MS)
    pressed(page, "Open the send")
    expect(page.get_by_role("heading", name="Receipt to ana.ruiz@example.com")).to_be_visible(timeout=WAIT_MS)
    assert "/review?send=" in page.url


def test_the_record_is_checked_and_what_was_touched_is_the_heading(alone: Hall, visit: Visit) -> None:
    n = filled(alone)
    page = visit(alone, "/audit", as_="Bo Lindqvist")
    expect(page.get_by_text(f"The record has {n} entries. Nobody has checked it yet.")).to_be_visible()
    pressed(page, "Check the record now")
    expect(page.get_by_role("heading", name=f"The record is whole: {n} entries, checked at")).to_be_visible(
        timeout=WAIT_MS
    )
    alone.house.run("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
    alone.house.run("UPDATE nottwice.audit SET why = 'other' WHERE id = 3")
    pressed(page, "Check the record now")
    expect(page.get_by_role("heading", name="Entry 3 does not fit the one before it.")).to_be_visible(
        timeout=WAIT_MS
    )
    expect(page.get_by_text("Do not change anything.")).to_be_visible()


def test_an_export_is_one_however_often_it_is_pressed(hall: Hall, visit: Visit) -> None:
    filled(hall)
    before = exports(hall)
    page = visit(hall, "/audit?outcome=refused", as_="Bo Lindqvist")
    pressed(page, "Export…")
    dialog = page.get_by_role("dialog")
    button = dialog.get_by_role("button", name="Export ")
    expect(button).to_be_visible(timeout=WAIT_MS)
    n = int(button.inner_text().split()[1])
    button.dblclick()
    expect(dialog.get_by_text("Recorded as entry")).to_be_visible(timeout=WAIT_MS)
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Save the file").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig"))))
    assert len(rows) == n and {row["Outcome"] for row in rows} == {"refused"}
    assert exports(hall) == before + 1
