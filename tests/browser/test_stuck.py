"""Stuck work in a real Chromium: rows picked on the canvas, words of strangers, two people on the same rows, the keyboard's way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Hall
from tests.browser.stage import WAIT_MS, settled
from tests.browser.strangers import HOSTILE, STRANGERS, watched
from tests.fix_events import worker
from tests.fix_stuck import SOURCE, Stuck

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]
ROW_PX, HEAD_PX = 38, 35
ROWS = "[data-testid='stDataFrame'] canvas"


def pick(page: Page, row: int) -> None:
    """The box at the left of a row."""
    box = page.locator(ROWS).first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 17, box["y"] + HEAD_PX + ROW_PX * (row + 0.5))


def failed(hall: Hall, type_: str, *keys: str, error: str = "ValueError: no") -> list[int]:
    """Set aside after five tries each, the first named first."""
    stuck = Stuck(hall.house, worker((SOURCE, type_), name="w-stuck"))
    ids = [stuck.stored(key, type=type_, age_s=3600.0) for key in keys]
    hall.house.run(
        """UPDATE nottwice.events SET state = 'failed', due_at = NULL, attempts = 5, last_error = :error, version = version + 1,
                  ended_at = now() - make_interval(secs => 1000 - id) WHERE id = ANY (:ids)""",
        ids=ids,
        error=error,
    )
    return ids


def states(hall: Hall, ids: list[int]) -> list[str]:
    rows = hall.database.run(
        lambda tx: tx.all("SELECT state FROM nottwice.events WHERE id = ANY (:ids) ORDER BY id", ids=ids)
    )
    return [row.state for row in rows]


def test_two_of_three_are_tried_again_although_somebody_was_first_with_one(hall: Hall, visit: Visit) -> None:
    """Rows are picked by what they are; the one that Bo set going meanwhile is left alone, and told (C10, UI-07)."""
    ids = failed(hall, "picked", "a", "b", "c")
    address = "/stuck?show=aside&type=picked"
    eva, bo = (visit(hall, address, as_=name, ready=ROWS) for name in ("Eva Horn", "Bo Lindqvist"))
    for page, rows in ((eva, (0, 1)), (bo, (1,))):
        page.locator(ROWS).first.wait_for(timeout=WAIT_MS)
        for row in rows:
            pick(page, row)
            settled(page)
    bo.get_by_role("button", name="Try it again").click()
    _say_why(bo, "Try it again", "the shop answers")
    expect(bo.get_by_text("1 piece of work was tried again.")).to_be_visible(timeout=WAIT_MS)
    eva.get_by_role("button", name="Try 2 again").click()
    _say_why(eva, "Try 2 again", "mine too")
    expect(eva.get_by_text("1 of 2 were left alone.")).to_be_visible(timeout=WAIT_MS)
    expect(eva.get_by_text("Bo Lindqvist was first, at")).to_be_visible()
    assert states(hall, ids) == ["pending", "pending", "failed"]


def _say_why(page: Page, act: str, why: str) -> None:
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Why?").fill(why)
    dialog.get_by_role("button", name=act).dblclick()  # a second press of the same form is the same act


def test_ui_01_errors_of_strangers_are_text_and_the_keyboard_leads_through(hall: Hall, visit: Visit) -> None:
    text = " ".join(HOSTILE)
    failed(hall, "hostile", "one", "two", error=text)
    page = visit(hall, "/stuck?show=aside&type=hostile", ready=ROWS)
    outside = watched(page)
    page.get_by_role("button", name="Open the oldest").press("Enter")
    drawer = page.get_by_role("dialog")
    expect(drawer.locator("[data-testid='stCode']")).to_contain_text(HOSTILE[0], timeout=WAIT_MS)
    expect(drawer.get_by_text("hostile one")).to_be_visible()
    drawer.get_by_role("button", name="Next").press("Enter")
    expect(drawer.get_by_text("hostile two")).to_be_visible(timeout=WAIT_MS)
    expect(drawer.get_by_text("You can read this.")).to_be_visible()  # Ana is support
    assert page.locator(STRANGERS).count() == 0 and outside == []
    drawer.get_by_role("button", name="Its whole story").press("Enter")
    expect(page.get_by_role("heading", name="set aside after 5 tries")).to_be_visible(timeout=WAIT_MS)
