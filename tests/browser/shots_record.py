"""Pictures of the record: whole, one of its entries, its export, and broken."""

from __future__ import annotations

from playwright.sync_api import Page

from ledger.database import Database
from tests.browser.shots import Album, Ids, Shot
from tests.browser.stage import settled
from tests.fix_record import record


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


def enter(database: Database, ids: Ids) -> None:
    """A fortnight behind what the albums before this one did, so that times and numbers run the same way."""
    with database.transaction() as tx:
        tx.execute("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
        tx.execute("UPDATE nottwice.audit SET at = at - interval '20 days'")
        tx.execute("ALTER TABLE nottwice.audit ENABLE TRIGGER USER")
    names = ("refund", "receipt", "reply", "welcome", "answer", "answer_2")
    record(database, [ids[name] for name in names])


def damage(database: Database, _ids: Ids) -> None:
    with database.transaction() as tx:
        tx.execute("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
        tx.execute(
            "UPDATE nottwice.audit SET why = 'Nothing to see here' WHERE id = (SELECT max(id) - 20 FROM nottwice.audit)"
        )
        tx.execute("ALTER TABLE nottwice.audit ENABLE TRIGGER USER")


NEWEST = "The newest comes first"
WHOLE = (  # a check is an entry of its own, which no worker seals here: one entry is opened before it
    Shot("audit-entry", "/audit", NEWEST, _entry),
    Shot("audit-entry-dark", "/audit", NEWEST, _entry, dark=True),
    Shot("audit", "/audit", NEWEST, _checked),
    Shot("audit-dark", "/audit", NEWEST, _checked, dark=True),
    Shot("audit-900", "/audit", NEWEST, _as_admin, width=900),
    Shot("audit-support", "/audit", "You see your own acts"),
    Shot("audit-asked", "/audit?outcome=refused&when=30d", NEWEST, _as_admin),
    Shot("audit-nothing", "/audit?about=provider", "Nothing in the record fits", _as_admin),
    Shot("audit-export", "/audit", NEWEST, _export),
)
BROKEN = (Shot("audit-broken", "/audit", NEWEST, _checked),)

ALBUMS = (Album(WHOLE, enter), Album(BROKEN, damage))
