"""Decisions in a real browser, against a real server process and a real database (UI-05, UI-07, AUD-01, UI-18)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from ledger.database import Database
from tests.browser.conftest import Hall
from tests.browser.stage import WAIT_MS, settled
from tests.fix_sandbox import until
from tests.fix_seed import RECEIPT, REFUND, House, desk, mail

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]


def choose(page: Page, choice: str, why: str = "Customer wrote that nothing came") -> None:
    """Everything but the press."""
    settled(page)
    page.locator("[data-testid='stRadio']").get_by_text(choice, exact=True).click()
    page.get_by_role("button", name="Provider's own log").click()
    page.get_by_label("Why? The audit keeps your words.").fill(why)


def acts(database: Database, send: int) -> list[tuple[str, str]]:
    """What the audit holds about a send, oldest first."""
    rows = database.run(
        lambda tx: tx.all(
            "SELECT act, outcome FROM nottwice.audit WHERE entity = 'action' AND entity_id = :id ORDER BY id",
            id=send,
        )
    )
    return [(row.act, row.outcome) for row in rows]


def state(database: Database, send: int) -> str:
    return str(
        database.run(lambda tx: tx.one("SELECT state FROM nottwice.actions WHERE id = :id", id=send)).state
    )


def slowed(house: House, send: int, seconds: float) -> None:
    """Every change of this send takes so long, as on a bad day."""
    house.run(
        f"""CREATE FUNCTION public.slow_{send}() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END $$"""
    )
    house.run(
        f"""CREATE TRIGGER slow_{send} BEFORE UPDATE ON nottwice.actions FOR EACH ROW WHEN (NEW.id = {send})
            EXECUTE FUNCTION public.slow_{send}()"""
    )


def under_way(database: Database) -> None:
    """Until a change that was slowed is being made: whatever was pressed has reached the database."""
    busy = "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    until(lambda: database.run(lambda tx: tx.one(busy)).n, WAIT_MS / 1000)


def test_ui_05_a_double_click_is_one_decision(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    slowed(hall.house, send, 1.5)
    page = visit(hall, f"/review?send={send}")
    choose(page, "Do not send")
    page.get_by_role("button", name="Close without sending").dblclick()
    expect(
        page.get_by_text("Closed without sending, by you").or_(page.get_by_text("Already done"))
    ).to_be_visible(timeout=WAIT_MS)
    page.locator("h1").first.wait_for()
    assert (
        acts(hall.database, send) == [("closed without sending", "done")]
        and state(hall.database, send) == "closed"
    )


def test_ui_05_click_reload_click_is_one_decision(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    slowed(hall.house, send, 1.5)
    page = visit(hall, f"/review?send={send}")
    choose(page, "Do not send")
    page.get_by_role("button", name="Close without sending").click()
    under_way(hall.database)
    page.reload()
    question = page.get_by_text("What should happen?")
    done = page.get_by_text("Closed without sending, by you").or_(
        page.get_by_text("Already done: you closed this")
    )
    expect(question.or_(done)).to_be_visible(timeout=WAIT_MS)
    if question.is_visible():  # the first press has not committed yet
        choose(page, "Do not send")
        page.get_by_role("button", name="Close without sending").click()
    expect(done).to_be_visible(timeout=WAIT_MS)
    assert acts(hall.database, send) == [("closed without sending", "done")]


def test_ui_05_two_tabs_of_one_person_are_one_decision(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    first, second = visit(hall, f"/review?send={send}"), visit(hall, f"/review?send={send}")
    for page in (first, second):
        choose(page, "Do not send")
    for page in (first, second):
        page.get_by_role("button", name="Close without sending").click()
    expect(first.get_by_text("Closed without sending, by you")).to_be_visible(timeout=WAIT_MS)
    expect(second.get_by_text("Already done: you closed this without sending at")).to_be_visible(
        timeout=WAIT_MS
    )
    assert acts(hall.database, send) == [("closed without sending", "done")]


def test_ui_07_of_two_people_one_decides_and_the_other_is_told_who_and_when(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    slowed(hall.house, send, 1.0)
    ana, bo = visit(hall, f"/review?send={send}"), visit(hall, f"/review?send={send}", as_="Bo Lindqvist")
    choose(ana, "It was sent")
    choose(bo, "Do not send")
    bo.get_by_role("button", name="Close without sending").click()
    under_way(hall.database)
    ana.get_by_role("button", name="Close as sent").click()
    expect(bo.get_by_text("Closed without sending, by you")).to_be_visible(timeout=WAIT_MS)
    lost = ana.get_by_text("Not done. Bo Lindqvist was first.")
    expect(lost).to_be_visible(timeout=WAIT_MS)
    expect(ana.get_by_text("closed this without sending at")).to_be_visible()
    expect(ana.get_by_text("Nothing of yours was carried out. The audit has both.")).to_be_visible()
    assert acts(hall.database, send) == [("closed without sending", "done"), ("closed as sent", "refused")]


def test_a_stale_page_decides_nothing(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    hall.house.evidence(send, "Notice from inboxili", "About the first", "sent")
    page = visit(hall, f"/review?send={send}")
    choose(page, "Do not send")
    hall.house.evidence(send, "Notice from inboxili", "About the second", "sent")
    expect(page.get_by_text("It changed. Show it as it is now")).to_be_visible(timeout=WAIT_MS)
    page.get_by_role("button", name="Close without sending").click()
    expect(page.get_by_text("This send changed while you had it open.")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("New since you opened it at ")).to_be_visible(timeout=WAIT_MS)
    # What is new stands among all of it too.
    expect(page.get_by_text("About the second")).to_have_count(2, timeout=WAIT_MS)
    expect(page.get_by_text("About the first")).to_have_count(1, timeout=WAIT_MS)
    assert state(hall.database, send) == "needs_review" and acts(hall.database, send) == [
        ("closed without sending", "refused")
    ]


def test_the_same_key_asks_once_more_waits_and_can_be_taken_back(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(REFUND, mail("j.okafor@example.org", "Your refund RF-220"), ago_s=3600)
    page = visit(hall, f"/review?send={send}")
    choose(page, "Send again with the same key")
    page.get_by_role("button", name="Send again with the same key…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("One copy at most.")).to_be_visible(timeout=WAIT_MS)
    expect(dialog.get_by_text("Your refund RF-220")).to_be_visible()
    assert state(hall.database, send) == "needs_review"
    dialog.get_by_role("button", name="Send it").click()
    expect(page.get_by_text("Goes out at")).to_be_visible(timeout=WAIT_MS)
    assert state(hall.database, send) == "approved"
    page.get_by_role("button", name="Take it back").click()
    expect(page.get_by_text("What should happen?")).to_be_visible(timeout=WAIT_MS)
    assert state(hall.database, send) == "needs_review"
    assert acts(hall.database, send) == [("send again with the same key", "done"), ("taken back", "done")]


def test_a_new_key_takes_a_second_person(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(RECEIPT, mail("m.costa@example.com", "Your receipt"), ago_s=600)
    ana = visit(hall, f"/review?send={send}")
    choose(ana, "Send again with a new key")
    ana.get_by_role("button", name="Ask a second person to agree").click()
    expect(ana.get_by_text("You asked for this yourself. Somebody else must agree.")).to_be_visible(
        timeout=WAIT_MS
    )
    bo = visit(hall, f"/review?send={send}", as_="Bo Lindqvist")
    expect(bo.get_by_text("Ana Soto asks you to agree: send again with a new key.")).to_be_visible()
    bo.get_by_role("button", name="Agree, send it").click()
    expect(bo.get_by_text("Nothing was done. Please say what you looked at and why.")).to_be_visible(
        timeout=WAIT_MS
    )
    bo.get_by_role("button", name="Our own records").click()
    bo.get_by_label("Why? The audit keeps your words.").fill("I called the customer")
    bo.get_by_role("button", name="Agree, send it").click()
    expect(bo.get_by_text("Goes out at")).to_be_visible(timeout=WAIT_MS)
    assert state(hall.database, send) == "closed"
    made = hall.database.run(
        lambda tx: tx.one("SELECT state, generation FROM nottwice.actions WHERE generation = 2")
    )
    assert made.state == "approved"


def test_aud_01_nothing_is_shown_or_decided_before_the_audit_has_it(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(
        RECEIPT, mail("ana.ruiz@example.com", "Your receipt", text="The secret is 4711."), ago_s=600
    )
    hall.house.run(
        "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'disk full'; END $$"
    )
    hall.house.run(
        f"""CREATE TRIGGER no BEFORE INSERT ON nottwice.audit FOR EACH ROW WHEN (NEW.entity_id = {send})
            EXECUTE FUNCTION public.no()"""
    )
    page = visit(hall, f"/review?send={send}")
    page.get_by_role("button", name="Show the text").click()
    expect(page.get_by_text("The audit could not note this, so nothing was shown.")).to_be_visible(
        timeout=WAIT_MS
    )
    assert not page.get_by_text("The secret is 4711.").count() and acts(hall.database, send) == []
    choose(page, "Do not send")
    page.get_by_role("button", name="Close without sending").click()
    expect(page.get_by_text("nothing was done. Try again")).to_be_visible(timeout=WAIT_MS)
    assert state(hall.database, send) == "needs_review"
    hall.house.run("DROP TRIGGER no ON nottwice.audit")
    page.get_by_role("button", name="Show the text").click()
    expect(page.get_by_text("The secret is 4711.")).to_be_visible(timeout=WAIT_MS)
    assert acts(hall.database, send) == [("reveal", "done")]
    settled(page)
    page.get_by_role("button", name="Close without sending").click()
    expect(page.get_by_text("Closed without sending, by you")).to_be_visible(timeout=WAIT_MS)
    assert acts(hall.database, send) == [("reveal", "done"), ("closed without sending", "done")]


ADDRESSES = ["0", "1'--", "![x](http://x)", "9" * 5_000, "-1", "1&send=2", "999999&action=approve"]


def test_ui_18_an_address_does_nothing_and_shows_no_markup(hall: Hall, visit: Visit) -> None:
    count = "SELECT count(*) AS n FROM nottwice.audit"
    before = hall.database.run(lambda tx: tx.one(count)).n
    page = visit(hall, f"/review?send={ADDRESSES[0]}")
    for address in ADDRESSES:
        if address != ADDRESSES[0]:
            page.goto(f"{hall.url}/review?send={address}")
        nothing = page.get_by_role("heading", name="There is nothing here, or you may not see it.")
        expect(nothing).to_be_visible(timeout=WAIT_MS)
        assert page.locator("img[src^='http://x']").count() == 0, address
    assert hall.database.run(lambda tx: tx.one(count)).n == before


def opened_at_its_top(page: Page) -> None:
    """In a low window the first send is read to its end; the next one begins at its top."""
    page.set_viewport_size({"width": 1280, "height": 500})
    page.get_by_role("button", name="Start with the first").press("Enter")
    expect(page.get_by_role("heading", name="Refund notice to j.okafor@example.org")).to_be_visible(
        timeout=WAIT_MS
    )
    settled(page)
    down = "() => { const it = document.querySelector('[data-testid=stMain]'); it.scrollTo(0, 9999); return it.scrollTop }"
    assert page.evaluate(down) > 200
    page.get_by_role("button", name="Next").evaluate("it => it.click()")  # which scrolls nothing into view
    heading = page.get_by_role("heading", name="Receipt to ana.ruiz@example.com")
    expect(heading).to_be_in_viewport(timeout=WAIT_MS)
    page.set_viewport_size({"width": 1280, "height": 1000})


def test_the_queue_opens_by_keyboard_and_comes_back(alone: Hall, visit: Visit) -> None:
    made = desk(alone.house)
    page = visit(alone, "/review")
    expect(page.get_by_text("7 sends wait for a decision.")).to_be_visible()
    page.get_by_role("button", name="Start with the first").press("Enter")
    expect(page.get_by_role("heading", name="Refund notice to j.okafor@example.org")).to_be_visible(
        timeout=WAIT_MS
    )
    assert page.url.endswith(f"?send={made.refund}")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("heading", name="Receipt to ana.ruiz@example.com")).to_be_visible(timeout=WAIT_MS)
    page.get_by_role("button", name="All 5 waiting").click()
    expect(page.get_by_role("button", name="Start with the first")).to_be_visible(timeout=WAIT_MS)
    opened_at_its_top(page)
    page.get_by_role("link", name="Review ·").click()  # while a send is open
    expect(page.get_by_role("button", name="Start with the first")).to_be_visible(timeout=WAIT_MS)
    assert page.url.endswith("/review")
