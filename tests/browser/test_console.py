"""The frame in a real browser: a first visit, words of strangers, an absent database, speed, and no outside request."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from playwright.sync_api import Browser, Page, expect

from ledger import payload
from ledger.embedded import Cluster
from ledger.records import Email
from tests.browser import stage
from tests.browser.conftest import Hall, built
from tests.databases import Databases
from tests.fix_seed import RECEIPT, House, full, mail, rules

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</div><h1>APPROVED</h1>",
    "![x](http://198.51.100.7/x.png) www.evil.example a@b.c",
    ":red[**bold**] [link](http://198.51.100.7)",
    "$\\frac{1}{2}$ :material/home: `code`",
    "\u202egpj.exe \u200bzero",
)
STRANGERS = "main img, main a[href*='evil'], main a[href*='198.51'], main .katex"
IN_ONE = f"{STRANGERS}, main h1:not(.nt-h1)"  # a list has a heading of Streamlit's


@pytest.mark.parametrize("path", ["/review", "/overview", "/audit", "/me", "/"])
def test_a_first_visit_of_a_fresh_server_runs_the_entry_script(
    chromium: Browser, databases: Databases, path: str
) -> None:
    with built(databases) as hall:
        page = chromium.new_page()
        page.goto(hall.url + path)
        expect(page.get_by_role("link", name="Ana Soto · support")).to_be_visible()
        expect(page.get_by_text("Nobody signs in on this machine.")).to_be_visible()
        assert page.title() in ("Review", "Overview", "Audit", "Ana Soto · support", "Not Twice")
        page.close()


def test_words_of_strangers_are_text_everywhere(alone: Hall, visit: Visit) -> None:
    """In the queue, and in each send that is opened from it, one after the other."""
    texts = {told(alone.house, text): text for text in HOSTILE}
    page, outside = visit(alone, "/review"), list[str]()
    page.on("request", lambda request: outside.append(request.url) if "198.51.100" in request.url else None)
    page.on("dialog", lambda dialog: outside.append(f"dialog {dialog.message}"))
    expect(page.get_by_text(f"{len(HOSTILE)} sends wait for a decision.")).to_be_visible()
    expect(page.locator("[data-testid='stDataFrame'] canvas").first).to_be_visible()
    assert page.locator(STRANGERS).count() == 0
    for place in range(len(texts)):
        page.get_by_role("button", name="Next" if place else "Start with the first").click()
        page.wait_for_url(lambda url: any(url.endswith(f"send={send}") for send in texts))
        only_text(page, texts.pop(int(page.url.split("send=")[1])))
    assert outside == [] and texts == {}


def told(house: House, text: str) -> int:
    """A send of which a stranger wrote every word."""
    email = Email(to=(text,), subject=text, text=text, sender=text, reply_to=(text,), html=text)
    send = house.uncertain(rules("receipt", key=False, why=text), email, about=text, ago_s=600)
    house.evidence(send, text, text, "sent")
    return send


def only_text(page: Page, text: str) -> None:
    text = payload.shown(text)
    expect(page.locator("h1")).to_contain_text(text)
    stage.settled(page)
    page.get_by_text("Tries · 1").click()
    page.get_by_role("button", name="Show the text").click()
    expect(page.get_by_text("Shown to you at")).to_be_visible()
    for place in ("h1", "table.nt-ev", "dl.nt-mail", "dl.nt-facts >> nth=0"):
        assert text in page.locator(place).inner_text()
    assert page.locator("[data-testid='stText']").first.inner_text() == text
    assert page.locator(IN_ONE).count() == 0


def test_a_role_that_may_not_decide_sees_masked_recipients_and_no_buttons(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    page = visit(hall, f"/review?send={send}", as_="Eva Horn")
    expect(page.get_by_text("You can read this. Support or admin decides.")).to_be_visible()
    expect(page.get_by_role("heading", name="Receipt to a•••@example.com")).to_be_visible()
    assert page.get_by_text("ana.ruiz").count() == 0 and page.get_by_text("What should happen?").count() == 0
    page.get_by_role("button", name="Show the text").click()
    expect(page.get_by_text("Nothing was shown. Please say why.")).to_be_visible()


def test_the_last_figures_stay_when_the_database_goes_and_heal_by_themselves(
    cluster: Cluster, chromium: Browser, alone: Hall, visit: Visit
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


def test_nothing_leaves_the_machine(hall: Hall, visit: Visit) -> None:
    page = visit(hall, "/overview")
    foreign: list[str] = []
    page.on(
        "request", lambda request: foreign.append(request.url) if "127.0.0.1" not in request.url else None
    )
    page.reload(wait_until="commit")
    page.locator("h1").wait_for()
    stage.settled(page)
    assert [url for url in foreign if not url.startswith(("data:", "blob:"))] == []


def test_it_does_not_serve_beyond_this_machine(chromium: Browser, login_url: Callable[[str], str]) -> None:
    with stage.console(login_url("nottwice_console"), address="0.0.0.0") as address:
        page = chromium.new_page()
        page.goto(address)
        expect(page.get_by_text("does not listen beyond this machine without sign-in")).to_be_visible()
        assert page.get_by_role("link", name="Review").count() == 0
        page.close()


def test_presence_names_the_other_and_says_whether_they_have_chosen(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    ana, bo = visit(hall, f"/review?send={send}"), visit(hall, f"/review?send={send}", as_="Bo Lindqvist")
    expect(ana.get_by_text("Bo Lindqvist has this open and has not chosen yet.")).to_be_visible()
    bo.locator("[data-testid='stRadio']").get_by_text("Do not send", exact=True).click()
    expect(ana.get_by_text("Bo Lindqvist is deciding this since")).to_be_visible()
