"""Pictures of runs: none, many, one in each state, and a plan in its three parts."""

from __future__ import annotations

from playwright.sync_api import Page

from ledger.database import Database
from tests.browser.shots import Album, Ids, Shot
from tests.browser.stage import settled
from tests.fix_seed import House
from tests.fix_worked_again import reruns


def as_(name: str, page: Page) -> None:
    page.get_by_role("button", name=f"Act as {name}").click()
    page.get_by_text(f"You act as {name}").first.wait_for()
    settled(page)
    page.locator("h1").first.scroll_into_view_if_needed()  # the button that was pressed is far below


def _as_admin(page: Page) -> None:
    as_("Bo Lindqvist", page)


def _plan(page: Page) -> None:
    _as_admin(page)
    page.get_by_text("Work it out again. Nothing leaves the house.").click()
    page.get_by_text("3 · What will happen").wait_for()
    settled(page)


def _pick(page: Page) -> None:
    _as_admin(page)
    page.get_by_text("Send again. People get mail.").click()
    page.get_by_role("button", name="Pick what to send again").click()
    for number in (1, 2, 3):
        page.locator("[data-testid='stCheckbox'] label").nth(number - 1).click()
        page.get_by_text(f"{number} {'is' if number == 1 else 'are'} picked").wait_for()
    page.get_by_text("3 · What will happen").wait_for()
    settled(page)


def fill(database: Database, ids: Ids) -> None:
    house = House(database)
    made = reruns(house)
    # However long the pictures take, it is a house at work that they show.
    house.run("UPDATE nottwice.workers SET seen_at = now() + interval '1 hour' WHERE name = 'w-77b1'")
    ids |= {"rerun_done": made.done, "rerun_running": made.running, "rerun_waiting": made.waiting}
    ids |= {"rerun_first": made.events[0], "rerun_last": made.events[-1]}


LIST, ROWS, PLAN = "The newest comes first", "Row by row", "1 · Which events"
TILLS = "/reprocess?plan=new&source=tills"
EMPTY = (Shot("reprocess-empty", "/reprocess", "Nothing has been run again"),)
FULL = (
    Shot("reprocess", "/reprocess", LIST, _as_admin),
    Shot("reprocess-dark", "/reprocess", LIST, dark=True),
    Shot("reprocess-900", "/reprocess", LIST, width=900),
    Shot("reprocess-plan", TILLS, PLAN, _plan, whole=True),
    Shot("reprocess-plan-dark", TILLS, PLAN, _plan, dark=True, whole=True),
    Shot("reprocess-plan-900", TILLS, PLAN, _plan, width=900, whole=True),
    Shot("reprocess-pick", TILLS, PLAN, _pick, whole=True),
    Shot("reprocess-running", "/reprocess?run={rerun_running}", ROWS, _as_admin, whole=True),
    Shot("reprocess-done", "/reprocess?run={rerun_done}", ROWS, whole=True),
    Shot("reprocess-second", "/reprocess?run={rerun_waiting}", ROWS, _as_admin, whole=True),
    Shot("reprocess-second-dark", "/reprocess?run={rerun_waiting}", ROWS, _as_admin, dark=True, whole=True),
    Shot("reprocess-own", "/reprocess?run={rerun_waiting}", ROWS, whole=True),
    Shot("reprocess-nothing", "/reprocess?run=999999", "There is nothing here"),
)

ALBUMS = (Album(FULL, fill),)
EMPTY_ALBUMS = (Album(EMPTY),)
