"""Health in a real browser: what an admin is shown, what they type while the page ticks, and what it does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from ledger.accounts import pauses
from tests.browser.conftest import Hall
from tests.browser.stage import WAIT_MS, settled

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]
ACCOUNT = "posthouse"


def test_an_admin_reads_health_and_resumes_an_account_while_the_page_ticks(hall: Hall, visit: Visit) -> None:
    hall.database.run(
        lambda tx: pauses.pause(tx, ACCOUNT, "It said **429**, <b>wait</b>.", retry_after_s=500)
    )
    page = visit(hall, "/health", as_="Bo Lindqvist")
    expect(page.get_by_text(f"Account {ACCOUNT} is paused")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("It said **429**, <b>wait</b>.").first).to_be_visible()
    expect(page.get_by_text("As nottwice check says it")).to_be_visible()
    expect(page.locator("[data-testid='stDataFrame'] canvas").first).to_be_visible()
    form = page.locator("[data-testid='stForm']").filter(has_text=f"Resume {ACCOUNT}")
    form.get_by_label("Why? The audit keeps your words.").fill("their status page says it is mended")
    seen = page.get_by_text("Live, read").inner_text()
    expect(page.get_by_text("Live, read")).not_to_have_text(
        seen
    )  # a tick went by, and took nothing of what was typed
    form.get_by_role("button", name=f"Resume {ACCOUNT}").click()
    expect(page.get_by_text("Done. The audit has it.")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text(f"Account {ACCOUNT} is paused")).to_have_count(0)
    settled(page)
    assert ACCOUNT not in [one.account for one in hall.database.run(pauses.standing)]
    why = hall.database.run(
        lambda tx: tx.one("SELECT why FROM nottwice.audit WHERE act = 'resume' ORDER BY id DESC LIMIT 1").why
    )
    assert why == "their status page says it is mended"
