"""Many sends with one cause in a real browser: two people with the same list, one of whose rows changes under their hands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Hall
from tests.browser.stage import WAIT_MS, settled
from tests.browser.test_review import acts, state
from tests.fix_seed import House, mail, rules

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]
OUTAGE = rules("outage_notice", key=True)  # a kind of its own: the stage is shared


def shared(house: House, n: int) -> list[int]:
    ids = [
        house.uncertain(OUTAGE, mail(f"p{i}@example.com", f"Notice {i}"), about=f"N-{i}") for i in range(n)
    ]
    house.run(
        """UPDATE nottwice.actions SET first_started_at = nottwice.quarter_of_an_hour(now()) - interval '8 min',
                  evidence_until = now() WHERE kind = 'outage_notice'"""
    )
    return ids


def choose(page: Page, choice: str) -> None:
    settled(page)
    page.locator("[data-testid='stRadio']").get_by_text(choice, exact=True).click()
    page.get_by_role("button", name="Provider's own log").click()
    page.get_by_label("Why? The audit keeps your words.").fill("Their status page names that time")


def test_ui_07_of_two_people_with_one_list_one_decides_and_the_other_is_told(
    hall: Hall, visit: Visit
) -> None:
    ids = shared(hall.house, 6)
    ana, bo = (
        visit(hall, f"/review?cause={ids[0]}"),
        visit(hall, f"/review?cause={ids[0]}", as_="Bo Lindqvist"),
    )
    choose(ana, "Send again with the same key")
    choose(bo, "Do not send")
    hall.house.evidence(ids[5], "Notice from agentmail", "A message near in time", "sent")
    ana.get_by_role("button", name="Send 6 again with the same key, 2 a second…").click()
    dialog = ana.get_by_role("dialog")
    expect(dialog.get_by_text("One copy at most.")).to_be_visible(timeout=WAIT_MS)
    dialog.get_by_role("button", name="Send them").click()
    expect(ana.get_by_role("heading", level=1)).to_have_text(
        "5 sends sent again with the same key, 1 left alone.", timeout=WAIT_MS
    )
    bo.get_by_role("button", name="Close 6 as not sent").click()
    expect(bo.get_by_text("Not done. Ana Soto was first.")).to_be_visible(timeout=WAIT_MS)
    assert acts(hall.database, ids[0]) == [("send again with the same key", "done")]
    assert acts(hall.database, ids[5]) == [] and state(hall.database, ids[5]) == "needs_review"

    ana.get_by_role("button", name="Take back the 5").click()
    expect(ana.get_by_text("All have gone, or are back on the desk.")).to_be_visible(timeout=WAIT_MS)
    assert [state(hall.database, id_) for id_ in ids] == ["needs_review"] * 6
