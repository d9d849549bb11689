"""One Chromium, one console and one database for a process's browser tests; each makes sends of its own in it.

`alone` gives a database and a console to one test, for those who count everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from dashboard.remembered import COOKIE
from ledger.database import Database
from tests.browser import stage
from tests.databases import Databases
from tests.fix_seed import House

PEOPLE = ["Ana Soto", "Bo Lindqvist", "Eva Horn"]  # in the order of the console's configuration
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
def built(databases: Databases, port: int = 0, refresh_s: float = 2.0) -> Iterator[Hall]:
    with databases.lent() as owner:
        database = Database(owner)
        login = database.engine.url.set(username="nottwice_console")
        address = login.render_as_string(hide_password=False)
        with stage.console(address, port=port, refresh_s=refresh_s) as url:
            yield Hall(House(database), database, url)
        database.close()


@pytest.fixture(scope="session")
def hall(databases: Databases) -> Iterator[Hall]:
    with built(databases) as made:
        yield made


@pytest.fixture(scope="session")
def held_port() -> Iterator[int]:
    """One address for the consoles of a single test each: what the browser has compiled of one serves the next."""
    with stage.held_port() as port:
        yield port


@pytest.fixture
def alone(databases: Databases, held_port: int) -> Iterator[Hall]:
    with built(databases, held_port) as made:
        yield made


@dataclass
class Views:
    """The browser profiles of one process's tests, each with its page between two tests.

    What the console's code costs to load and compile, most of a visit's CPU, is paid once and not at each visit.
    """

    chromium: Browser
    profiles: dict[str, BrowserContext] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)

    def profile(self, way: str, **context: Any) -> BrowserContext:
        """Without cookies. What moves while a page waits would be drawn by the processor: a fifth of a visit."""
        if way not in self.profiles:
            self.profiles[way] = self.chromium.new_context(
                viewport=stage.VIEWPORT, reduced_motion="reduce", **context
            )
        self.profiles[way].clear_cookies()
        return self.profiles[way]

    def page(self, way: str, **context: Any) -> Page:
        """A page of its own profile."""
        profile = self.profile(way, **context)
        return self.pages.pop(way, None) or profile.new_page()

    def give_back(self, way: str, page: Page) -> None:
        if page.is_closed() or listened_to(page):
            page.close()
            return
        page.unroute_all()
        page.goto("about:blank")  # its session at the console ends
        page.set_viewport_size(stage.VIEWPORT)
        self.pages[way] = page


def listened_to(page: Page) -> bool:
    """Whether a test hears of what happens in it: that could not be taken back by us."""
    return bool(page._impl_obj.event_names())


@pytest.fixture(scope="session")
def views(chromium: Browser) -> Iterator[Views]:
    kept = Views(chromium)
    yield kept
    for profile in kept.profiles.values():
        profile.close()


@pytest.fixture
def visit(views: Views) -> Iterator[Callable[..., Page]]:
    """Opens an address of a console in a profile of its own, as one more person's would be.

    `as_`: as it is once one has chosen to act as somebody else than the first of the people. `hears`: begins to
    listen before anything is loaded.
    """
    opened: dict[str, Page] = {}

    def open_page(
        hall: Hall,
        path: str,
        *,
        as_: str = "",
        ready: str = "h1",
        hears: Callable[[Page], object] | None = None,
        **context: Any,
    ) -> Page:
        way = f"{len(opened)} {sorted(context.items())}"
        page = opened[way] = views.page(way, **context)
        if as_:
            page.context.add_cookies([{"name": COOKIE, "value": str(PEOPLE.index(as_)), "url": hall.url}])
        if hears:
            hears(page)
        page.goto(hall.url + path)
        page.locator(ready).first.wait_for(timeout=stage.WAIT_MS)
        if as_:
            page.get_by_text(f"You act as {as_}").first.wait_for()
        stage.settled(page)  # what is pressed while a page is still drawn may be drawn anew under the pointer
        return page

    yield open_page
    for way, page in opened.items():
        views.give_back(way, page)
