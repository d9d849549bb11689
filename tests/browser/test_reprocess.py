"""The Reprocess page in a real Chromium: two presses, progress that comes by itself, a second person, and the keyboard (UI-01, UI-05)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Hall
from tests.browser.stage import WAIT_MS, settled
from tests.browser.strangers import HOSTILE, STRANGERS
from tests.fix_seed import House
from tests.fix_worked_again import FAR, OVER, carried, sold

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]
SLOW = (
    """CREATE OR REPLACE FUNCTION public.slow_runs() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN PERFORM pg_sleep(1.5); RETURN NEW; END $$""",
    """CREATE TRIGGER slow_runs BEFORE INSERT ON nottwice.reprocess_runs
       FOR EACH ROW EXECUTE FUNCTION public.slow_runs()""",
)


def value(house: House, sql: str, **values: Any) -> Any:
    return house.db.run(lambda tx: tx.one(sql, **values))[0]


def runs_of(house: House, event: int) -> int:
    sql = "SELECT count(DISTINCT run_id) FROM nottwice.reprocess_rows WHERE event_id = :id"
    return int(value(house, sql, id=event))


def test_ui_05_two_presses_are_one_run_whose_progress_comes_by_itself(hall: Hall, visit: Visit) -> None:
    house, why = hall.house, " ".join(HOSTILE)
    first, second = sold(house, 2)
    page = visit(hall, f"/reprocess?event={first},{second}", as_="Bo Lindqvist")
    page.get_by_text("Work it out again. Nothing leaves the house.").click()
    expect(page.get_by_text("2 results will be worked out again.")).to_be_visible(timeout=WAIT_MS)
    page.get_by_label("Why? The audit keeps your words.").fill(why)
    for sql in SLOW:
        house.run(sql)
    page.get_by_role("button", name="Work out 2 results again").dblclick(delay=40)
    expect(page.locator("h1")).to_have_text("0 of 2 rows have their result.", timeout=WAIT_MS)
    settled(page)
    house.run("DROP TRIGGER slow_runs ON nottwice.reprocess_runs")
    assert runs_of(house, first) == 1 and "run=" in page.url
    assert (
        page.locator(STRANGERS).count() == 0 and page.locator("dl.nt-facts").inner_text().count("<img") == 1
    )
    run = int(value(house, "SELECT max(run_id) FROM nottwice.reprocess_rows"))
    house.run(FAR, run=run)
    carried(house, run, ["done", "working"])
    expect(page.locator("h1")).to_have_text("1 of 2 rows have their result.", timeout=WAIT_MS)
    expect(page.get_by_text("The one under way finishes. 1 are done")).to_be_visible(timeout=WAIT_MS)
    carried(house, run, ["done", "done"])
    house.run(OVER, run=run)
    expect(page.locator("h1")).to_have_text("It is done: 2 worked out again.", timeout=WAIT_MS)
    assert page.locator("[data-testid='stException']").count() == 0


def test_a_send_is_picked_by_keyboard_and_somebody_else_agrees(hall: Hall, visit: Visit) -> None:
    house = hall.house
    (event,) = sold(house, 1, first=3001)
    bo = visit(hall, f"/reprocess?event={event}", as_="Bo Lindqvist")
    bo.get_by_text("Send again. People get mail.").click()
    bo.get_by_role("button", name="Pick what to send again").click()
    box = bo.get_by_role("checkbox")
    box.focus()
    bo.keyboard.press("Space")
    expect(bo.get_by_text("1 e-mail will go to 1 person.")).to_be_visible(timeout=WAIT_MS)
    bo.get_by_label("Why? The audit keeps your words.").fill("The customer asked")
    bo.get_by_role("button", name="Ask a second person: 1 e-mail to 1 person").click()
    expect(bo.get_by_text("You asked for this yourself. Somebody else must agree.")).to_be_visible(
        timeout=WAIT_MS
    )
    run = bo.url.partition("run=")[2]
    ana = visit(hall, f"/reprocess?run={run}")
    expect(ana.get_by_text("The customer asked")).to_be_hidden(timeout=WAIT_MS)
    ana.get_by_role("button", name="Only this page").click()
    ana.get_by_label("Why? The audit keeps your words.").fill("I spoke to them")
    ana.get_by_role("button", name="Agree, send it").click()
    expect(ana.locator("h1")).to_have_text("0 of 1 row has its result.", timeout=WAIT_MS)
    state = "SELECT state FROM nottwice.reprocess_runs WHERE id = :id"
    assert value(house, state, id=int(run)) == "running"
    house.run(FAR, run=int(run))
