"""Pictures of Health: with something to do about, to the end of its table, narrow, and dark."""

from __future__ import annotations

from playwright.sync_api import Page

from ledger.accounts import pauses
from ledger.database import Database
from tests.browser.shots import Album, Ids, Shot, with_charts
from tests.browser.stage import settled

MONTH = """
INSERT INTO nottwice.samples (hour, taken_at, events_bytes, event_contents_bytes, sends_bytes, record_bytes, others_bytes,
                              oldest_transaction_s)
SELECT date_trunc('hour', now()) - h * interval '1 h', now() - h * interval '1 h', (2000 - h) * CAST(9e5 AS bigint),
       (2000 - h + h % 30) * CAST(2.1e6 AS bigint), (2000 - h) * CAST(4e5 AS bigint), (2000 - h) * CAST(9e4 AS bigint), 30000000,
       4 + 3 * abs(sin(h)) + CASE WHEN h % 97 = 0 THEN 150 ELSE 0 END
FROM generate_series(1, 719) AS h
"""
ALIVE = """
INSERT INTO nottwice.workers (id, name, kind, host) VALUES (gen_random_uuid(), 'receiver-8080', 'receiver', 'here')
"""


def _as_admin(page: Page) -> None:
    page.get_by_role("button", name="Act as Bo Lindqvist").click()
    page.get_by_text("You act as Bo Lindqvist").first.wait_for()
    settled(page)
    with_charts(page)
    page.locator("h1").first.scroll_into_view_if_needed()  # the button that was pressed is far below


def strained(database: Database, _ids: Ids) -> None:
    words = "AgentMail answered 429: too many requests. It asked to wait."
    database.run(lambda tx: pauses.pause(tx, "agentmail", words, retry_after_s=480))
    for sql in (MONTH, ALIVE):
        database.run(lambda tx, sql=sql: tx.execute(sql) and None)  # type: ignore[misc]


CHARTS = "Oldest transaction, 30 days"
ALBUMS: tuple[Album, ...] = (
    Album(
        (
            Shot("health", "/health", CHARTS, _as_admin),
            Shot("health-whole", "/health", CHARTS, with_charts, whole=True),
            Shot("health-dark", "/health", CHARTS, _as_admin, dark=True, whole=True),
            Shot("health-900", "/health", CHARTS, with_charts, width=900),
        ),
        strained,
    ),
)
