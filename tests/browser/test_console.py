"""The frame in a real browser: a first visit, an absent database, speed, and no outside request."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from playwright.sync_api import Page, expect

from ledger.embedded import Cluster
from tests.browser.conftest import Hall
from tests.fix_seed import RECEIPT, full, mail

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]


@pytest.mark.parametrize("path", ["/review", "/overview", "/audit", "/me", "/"])
def test_a_first_visit_of_a_fresh_server_runs_the_entry_script(alone: Hall, visit: Visit, path: str) -> None:
    page = visit(alone, path)
    expect(page.get_by_role("link", name="Ana Soto · support")).to_be_visible()
    expect(page.get_by_text("Nobody signs in on this machine.")).to_be_visible()
    assert page.title() in ("Review", "Overview", "Audit", "Ana Soto · support", "Not Twice")


def test_a_role_that_may_not_decide_sees_masked_recipients_and_no_buttons(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    page = visit(hall, f"/review?send={send}", as_="Eva Horn")
    expect(page.get_by_text("You can read this. Support or admin decides.")).to_be_visible()
    expect(page.get_by_role("heading", name="Receipt to a•••@example.com")).to_be_visible()
    assert page.get_by_text("ana.ruiz").count() == 0 and page.get_by_text("What should happen?").count() == 0
    page.get_by_role("button", name="Show the text").click()
    expect(page.get_by_text("Nothing was shown. Please say why.")).to_be_visible()


def test_the_last_figures_stay_when_the_database_goes_and_heal_by_themselves(
    cluster: Cluster, alone: Hall, visit: Visit
) -> None:
    full(alone.house)
    page = visit(alone, "/overview")
    expect(page.get_by_text("38 events waiting")).to_be_visible()
    name = alone.database.engine.url.database
    alone.database.close()
    with psycopg.connect(
        host=str(cluster.socket), port=5432, user="postgres", dbname="postgres", autocommit=True
    ) as admin:
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        expect(page.get_by_text("The database cannot be reached since")).to_be_visible()
        expect(page.get_by_text("38 events waiting")).to_be_visible()
        assert page.locator("[data-testid='stException']").count() == 0
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    expect(page.get_by_text("The database cannot be reached since")).to_be_hidden()


def test_nothing_leaves_the_machine_and_nothing_asks_at_a_wrong_address(hall: Hall, visit: Visit) -> None:
    asked: list[str] = []
    visit(
        hall,
        "/overview",
        hears=lambda page: page.on("request", lambda request: asked.append(request.url)),
    )
    assert f"{hall.url}/overview" in asked
    assert [url for url in asked if not url.startswith((hall.url, "data:", "blob:"))] == []
    assert [
        url for url in asked if "/overview/" in url
    ] == []  # as Streamlit's page would, and wait for a while


def test_presence_names_the_other_and_says_whether_they_have_chosen(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    ana, bo = visit(hall, f"/review?send={send}"), visit(hall, f"/review?send={send}", as_="Bo Lindqvist")
    expect(ana.get_by_text("Bo Lindqvist has this open and has not chosen yet.")).to_be_visible()
    bo.locator("[data-testid='stRadio']").get_by_text("Do not send", exact=True).click()
    expect(ana.get_by_text("Bo Lindqvist is deciding this since")).to_be_visible()
