"""Pictures of the overview and the review desk: empty, full, and after what somebody did."""

from __future__ import annotations

import re
from dataclasses import asdict

from playwright.sync_api import Page

from ledger.database import Database
from tests.browser.shots import Album, Ids, Shot, with_charts
from tests.fix_seed import WELCOME, House, full, mail


def choose(page: Page, choice: str, why: str = "Customer wrote that nothing came") -> None:
    """Fill the form of a decision, without pressing its button."""
    page.get_by_text(choice, exact=True).first.click()
    page.get_by_role("button", name="Provider's own log").click()
    page.get_by_label("Why? The audit keeps your words.").fill(why)


def _dialog(page: Page) -> None:
    choose(page, "Send again with the same key")
    page.get_by_role("button", name="Send again with the same key…").click()
    page.get_by_role("button", name="Send it").wait_for()


def _send_it(page: Page) -> None:
    _dialog(page)
    page.get_by_role("button", name="Send it").click()
    page.get_by_text("Goes out at").wait_for()


def _close(page: Page) -> None:
    choose(page, "Do not send")
    page.get_by_role("button", name="Close without sending").click()
    page.get_by_text("Closed without sending").wait_for()


def _ask(page: Page) -> None:
    choose(page, "Send again with a new key")
    page.get_by_role("button", name="Ask a second person").click()
    page.get_by_text("Nothing has gone out.").wait_for()


def _as_bo(page: Page) -> None:
    page.get_by_role("button", name="Act as Bo Lindqvist").click()
    page.get_by_text("asks you to agree").wait_for()


def _show_text(page: Page) -> None:
    page.get_by_role("button", name="Show the text").click()
    page.get_by_text("Shown to you at").wait_for()


def fill(database: Database, ids: Ids) -> None:
    made = full(House(database))
    ids |= {name: id_ for name, id_ in asdict(made).items() if isinstance(id_, int)}
    ids["answer"], ids["answer_2"] = made.answers


EMPTY = (
    Shot("overview-empty", "/overview", "Nothing has arrived yet"),
    Shot("queue-empty", "/review", "Nothing waits"),
    Shot("audit-empty", "/audit", "Nothing is on record"),
)

RECEIPT = "/review?send={receipt}"
FOUND = "What we found"

# A full house that nobody touches:
FULL = (
    Shot("overview", "/overview", "Work in hand", with_charts),
    Shot("overview-dark", "/overview", "Work in hand", with_charts, dark=True),
    Shot("overview-900", "/overview", "Work in hand", with_charts, dark=True, width=900),
    Shot("review-queue", "/review", "Start with the first"),
    Shot("review-queue-dark", "/review", "Start with the first", dark=True),
    Shot("review-send", RECEIPT, FOUND, whole=True),
    Shot("review-send-dark", RECEIPT, FOUND, dark=True, whole=True),
    Shot("review-send-900", RECEIPT, FOUND, width=900, whole=True),
    Shot("review-key", "/review?send={refund}", FOUND, whole=True),
    Shot("review-looks-alike", "/review?send={reply}", FOUND, whole=True),
    Shot("review-approve", "/review?send={answer}", "Approve exactly", whole=True),
    Shot("review-nothing", "/review?send=999999", "There is nothing here"),
    Shot("me", "/me", "You act as"),
)

# What somebody did, in this order: each changes what the next one finds.
DONE = (
    Shot("review-text", RECEIPT, FOUND, _show_text, whole=True),
    Shot("review-dialog", "/review?send={refund}", FOUND, _dialog),
    Shot("review-done", "/review?send={welcome}", FOUND, _close),
    Shot("review-asked", "/review?send={second}", FOUND, _ask),
    Shot("review-second", "/review?send={second}", FOUND, _as_bo, whole=True),
    Shot("review-goes", "/review?send={refund}", FOUND, _send_it),
    Shot("decided", "/review", "wait for a decision", lambda page: page.get_by_text("Decided today").click()),
)


def _outage(database: Database, ids: Ids) -> None:
    """Nine sends that one provider left without an answer, one of which may have gone out."""
    house = House(database)
    made = [
        house.uncertain(
            WELCOME, mail(f"{name}@example.net", "Welcome to Acme"), about="new account", ago_s=1500
        )
        for name in (
            "li.wei",
            "ana.ruiz",
            "tom.berg",
            "eva.horn",
            "m.costa",
            "j.okafor",
            "p.novak",
            "s.ito",
            "d.roy",
        )
    ]
    house.evidence(made[4], "AgentMail thread search", "One message near in time", "sent")
    house.run(
        """UPDATE nottwice.actions SET evidence_until = now() - interval '1 min',
                  first_started_at = nottwice.quarter_of_an_hour(now() - interval '15 min') + make_interval(secs => (id * 97) % 720)
           WHERE id = ANY(CAST(:ids AS bigint[]))""",
        ids=made,
    )
    ids["cause"] = made[0]


def _close_together(page: Page) -> None:
    choose(page, "Do not send", "Their status page says that nothing was taken in")
    page.get_by_role("button", name=re.compile("Close .* as not sent")).click()
    page.get_by_text("Decided by you").wait_for()


CAUSE = "/review?cause={cause}"
TOGETHER = (
    Shot("review-queue-cause", "/review", "Decide these together"),
    Shot("review-together", CAUSE, "share one cause", lambda page: choose(page, "Do not send")),
    Shot("review-together-dark", CAUSE, "share one cause", dark=True),
    Shot("review-together-900", CAUSE, "share one cause", width=900, whole=True),
    Shot("review-together-done", CAUSE, "share one cause", _close_together),
)

ALBUMS = (Album(EMPTY), Album(FULL, fill), Album(DONE), Album(TOGETHER, _outage))
