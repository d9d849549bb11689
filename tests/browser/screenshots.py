"""Pictures of the console for the documentation: `python -m tests.browser.screenshots [FOLDER]`.

A full house, an empty one, and a database that went away; each page in both themes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page

from ledger import schema
from ledger.database import Database
from ledger.embedded import Cluster
from tests.browser.stage import HOUSE, browser, console, settled
from tests.fix_record import record
from tests.fix_seed import Desk, House, full


class Photographer:
    """Takes one picture after another of one console."""

    def __init__(self, started: Browser, url: str, folder: Path) -> None:
        self._browser, self._url, self._folder = started, url, folder

    def take(
        self,
        name: str,
        path: str,
        ready: str,
        *,
        dark: bool = False,
        width: int = 1280,
        whole: bool = False,
        act: Callable[[Page], None] = lambda _: None,
    ) -> None:
        view = self._browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"
        )
        page = view.new_page()
        page.goto(self._url + path)
        page.get_by_text(ready).first.wait_for(timeout=15_000)
        settled(page)
        act(page)
        page.wait_for_timeout(700)  # fonts, and Plotly's chunk: a picture has no other sign of being complete
        if whole:
            page.set_viewport_size({"width": width, "height": 1700})
            page.wait_for_timeout(300)
        page.screenshot(path=self._folder / f"{name}.png")
        view.close()


def pictures(camera: Photographer, made: Desk) -> None:
    for dark in (False, True):
        mode = "dark" if dark else "light"
        camera.take(f"overview-{mode}", "/overview", "Work in hand", dark=dark)
        camera.take(f"queue-{mode}", "/review", "Start with the first", dark=dark)
        camera.take(f"review-{mode}", f"/review?send={made.receipt}", "What we found", dark=dark, whole=True)
    camera.take("overview-900", "/overview", "Work in hand", dark=True, width=900)
    camera.take("review-900", f"/review?send={made.receipt}", "What we found", width=900, whole=True)
    camera.take("review-key", f"/review?send={made.refund}", "What we found", whole=True)
    camera.take("review-text", f"/review?send={made.receipt}", "What we found", whole=True, act=_show_text)
    camera.take("review-looks-alike", f"/review?send={made.reply}", "What we found", whole=True)
    camera.take("review-dialog", f"/review?send={made.refund}", "What we found", act=_dialog)
    camera.take("review-approve", f"/review?send={made.answers[0]}", "Approve exactly", whole=True)
    camera.take("review-nothing", "/review?send=999999", "There is nothing here")
    camera.take("me", "/me", "You act as")
    camera.take("review-done", f"/review?send={made.welcome}", "What we found", act=_close)
    camera.take("review-asked", f"/review?send={made.second}", "What we found", act=_ask)
    camera.take("review-second", f"/review?send={made.second}", "What we found", act=_as_bo, whole=True)
    camera.take("review-goes", f"/review?send={made.refund}", "What we found", act=_send_it)
    camera.take(
        "decided", "/review", "wait for a decision", act=lambda p: p.get_by_text("Decided today").click()
    )


def record_pictures(camera: Photographer, database: Database) -> None:
    """The audit whole, one of its entries, its export, and broken."""
    for dark in (False, True):
        mode = "dark" if dark else "light"
        camera.take(f"audit-{mode}", "/audit", "The newest comes first", dark=dark, act=_checked)
        camera.take(f"audit-entry-{mode}", "/audit", "The newest comes first", dark=dark, act=_entry)
    camera.take("audit-900", "/audit", "The newest comes first", width=900, act=_as_admin)
    camera.take("audit-support", "/audit", "You see your own acts")
    camera.take("audit-asked", "/audit?outcome=refused&when=30d", "The newest comes first", act=_as_admin)
    camera.take("audit-nothing", "/audit?about=provider", "Nothing in the record fits", act=_as_admin)
    camera.take("audit-export", "/audit", "The newest comes first", act=_export)
    with database.transaction() as tx:
        tx.execute("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
        tx.execute(
            "UPDATE nottwice.audit SET why = 'Nothing to see here' WHERE id = (SELECT max(id) - 20 FROM nottwice.audit)"
        )
        tx.execute("ALTER TABLE nottwice.audit ENABLE TRIGGER USER")
    camera.take("audit-broken", "/audit", "The newest comes first", act=_checked)


def _as_admin(page: Page) -> None:
    page.get_by_role("button", name="Act as Bo Lindqvist").click()
    page.get_by_text("You act as Bo Lindqvist").first.wait_for()
    page.get_by_role("button", name="Check the record now").wait_for()
    settled(page)
    page.locator("h1").first.scroll_into_view_if_needed()  # the button that was pressed is far below


def _checked(page: Page) -> None:
    _as_admin(page)
    page.get_by_role("button", name="Check the record now").click()
    page.get_by_text("Checked by Bo Lindqvist").or_(
        page.get_by_text("Do not change anything")
    ).first.wait_for()
    settled(page)


def _entry(page: Page) -> None:
    _as_admin(page)
    page.get_by_role("button", name="Open the newest").click()
    page.get_by_text("of the chain").wait_for()


def _export(page: Page) -> None:
    _as_admin(page)
    page.get_by_role("button", name="Export…").click()
    page.get_by_role("button", name="Export 77 entries").or_(
        page.get_by_role("button", name="Export ")
    ).last.wait_for()


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


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HOUSE / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="nottwice-pictures-", dir="/tmp"))
    home.chmod(0o711)
    server = Cluster(home, settings={"fsync": "off"})
    try:
        server.ensure()
        schema.migrate(server.url())
        with browser() as started, console(server.url("nottwice_console"), refresh_s=2.0) as url:
            camera = Photographer(started, url, folder)
            camera.take("overview-empty", "/overview", "Nothing has arrived yet")
            camera.take("queue-empty", "/review", "Nothing waits")
            camera.take("audit-empty", "/audit", "Nothing is on record")
        database = Database(server.url())
        made = full(House(database))
        with browser() as started, console(server.url("nottwice_console"), refresh_s=2.0) as url:
            camera = Photographer(started, url, folder)
            pictures(camera, made)
            record(database, [*made.uncertain, *made.answers])
            record_pictures(camera, database)
            camera.take(
                "database-gone", "/overview", "Work in hand", act=lambda page: _stop(page, server, database)
            )
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _stop(page: Page, server: Cluster, database: Database) -> None:
    database.close()
    server.stop()
    page.get_by_text("The database cannot be reached").wait_for()


if __name__ == "__main__":
    main()
