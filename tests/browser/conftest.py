"""One Chromium, one console and one database for a process's browser tests; each makes sends of its own in it.

`alone` gives a database and a console to one test, for those who count everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from ledger.database import Database
from tests.browser import stage
from tests.databases import Databases
from tests.fix_seed import House

TEMPLATE = "template_nottwice"
expect.set_options(timeout=stage.WAIT_MS)  # its own five seconds are too few for a busy machine


@dataclass
class Hall:
    """A house, its owner's door, and the address of its console."""

    house: House
    database: Database
    url: str


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if stage.chromium() is None:
        pytest.skip("no Chromium on this machine; .ci/chromium installs it where it may")
    with stage.browser() as started:
        yield started


@contextmanager
def built(databases: Databases) -> Iterator[Hall]:
    with databases.lent() as owner:
        database = Database(owner)
        login = database.engine.url.set(username="nottwice_console")
        with stage.console(login.render_as_string(hide_password=False)) as url:
            yield Hall(House(database), database, url)
        database.close()


@pytest.fixture(scope="session")
def hall(databases: Databases) -> Iterator[Hall]:
    with built(databases) as made:
        yield made


@pytest.fixture
def alone(databases: Databases) -> Iterator[Hall]:
    with built(databases) as made:
        yield made


@pytest.fixture(scope="session")
def views(chromium: Browser) -> Iterator[dict[str, BrowserContext]]:
    """The browser profiles of one process's tests: what a page's code costs to load is paid once, not each time."""
    kept: dict[str, BrowserContext] = {}
    yield kept
    for view in kept.values():
        view.close()


@pytest.fixture
def visit(chromium: Browser, views: dict[str, BrowserContext]) -> Iterator[Callable[..., Page]]:
    """Opens an address of a console in a profile without cookies, as one more person's would be."""
    opened: list[Page] = []

    def open_page(hall: Hall, path: str, *, as_: str = "", ready: str = "h1", **context: object) -> Page:
        way = f"{len(opened)} {sorted(context.items())}"
        if way not in views:
            views[way] = chromium.new_context(viewport={"width": 1280, "height": 1000}, **context)  # type: ignore[arg-type]
        views[way].clear_cookies()
        page = views[way].new_page()
        opened.append(page)
        page.goto(hall.url + path)
        page.locator(ready).first.wait_for(timeout=30_000)  # a deadline on a busy machine, not a duration
        stage.settled(page)  # what is pressed while a page is still drawn may be drawn anew under the pointer
        if as_:
            page.get_by_role("button", name=f"Act as {as_}").click()
            page.get_by_text(f"You act as {as_}").first.wait_for()
            stage.settled(page)
        return page

    yield open_page
    for page in opened:
        page.close()
