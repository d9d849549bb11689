"""Pictures of stuck work: none, each way to be stuck, several picked, one in its drawer, and an act asked once more."""

from __future__ import annotations

from playwright.sync_api import Page

from ledger.database import Database
from tests.browser.shots import Album, Ids, Shot, with_charts
from tests.browser.stage import settled
from tests.fix_seed import House
from tests.fix_stuck import Stuck

ROW_PX, HEAD_PX = 38, 35


def _as_engineer(page: Page) -> None:
    """Whose page it is."""
    page.get_by_role("button", name="Act as Eva Horn").click()
    page.get_by_text("You act as Eva Horn").first.wait_for()
    settled(page)
    with_charts(page)
    page.locator("h1").first.scroll_into_view_if_needed()  # the button that was pressed is far below


def _pick(page: Page, *rows: int) -> None:
    """The boxes at the left of these rows."""
    box = page.locator("[data-testid='stDataFrame'] canvas").first.bounding_box()
    assert box is not None
    for row in rows:
        page.mouse.click(box["x"] + 17, box["y"] + HEAD_PX + ROW_PX * (row + 0.5))
        page.get_by_text("can be done").or_(page.get_by_role("button", name="aside")).or_(
            page.get_by_role("button", name=" again", exact=False)
        ).first.wait_for()


def _two(page: Page) -> None:
    _as_engineer(page)
    _pick(page, 0, 1, 2)
    settled(page)


def _asked(page: Page) -> None:
    _as_engineer(page)
    _pick(page, 0)
    page.get_by_role("button", name="Try it again").click()
    page.get_by_text("The handler runs again.").wait_for()


def _oldest(page: Page) -> None:
    _as_engineer(page)
    page.get_by_role("button", name="Open the oldest").click()
    page.get_by_text("Its errors").wait_for()


def fill(database: Database, ids: Ids) -> None:
    stuck = Stuck(House(database))
    # What the albums before this one left to do is for tomorrow: the next claim is of what is made here.
    stuck.house.run("UPDATE nottwice.events SET due_at = now() + interval '1 day' WHERE state = 'pending'")
    stuck.in_hand("evt_1101", left_s=10.0)
    stuck.in_hand("evt_1102", left_s=3600.0)
    ids["stuck_over"] = stuck.in_hand("evt_1103", left_s=-14.0)
    stuck.failed("evt_1104", error="ValueError: no such invoice: INV-1104", ago_s=1500.0)
    stuck.failed("evt_1105", error="TimeoutError: the model gave no answer", ago_s=900.0)
    stuck.given_up("RF-220")
    stuck.unhandled("evt_1106")
    stuck.unhandled("evt_1107")
    stuck.retrying("evt_1108")
    stuck.in_line("evt_1109", "evt_1110")
    stuck.overdue("evt_1111")


EMPTY = (Shot("stuck-empty", "/stuck", "Nothing is stuck"),)
FULL = (
    Shot("stuck", "/stuck", "are stuck", _as_engineer),
    Shot("stuck-dark", "/stuck?show=aside", "are stuck", _as_engineer, dark=True),
    Shot("stuck-900", "/stuck?show=waiting", "are stuck", _as_engineer, width=900),
    Shot("stuck-unhandled", "/stuck?show=unhandled", "are stuck", with_charts),
    Shot("stuck-picked", "/stuck?show=aside", "are stuck", _two, whole=True),
    Shot("stuck-asked", "/stuck?show=aside", "are stuck", _asked),
    Shot("stuck-event", "/stuck?show=aside", "are stuck", _oldest),
    Shot("stuck-event-dark", "/stuck?show=aside", "are stuck", _oldest, dark=True),
    Shot("stuck-nothing", "/stuck?event=999999", "There is nothing here"),
)

ALBUMS = (Album(FULL, fill),)
EMPTY_ALBUMS = (Album(EMPTY),)
