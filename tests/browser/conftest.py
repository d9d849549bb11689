"""One Chromium, one console and one database for the browser's tests; each makes sends of its own in it.

`alone` gives a database and a console to one test, for those who count everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from ledger.database import Database
from ledger.embedded import Cluster
from tests.browser import stage
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
def built(cluster: Cluster, name: str) -> Iterator[Hall]:
    host = str(cluster.socket)
    with psycopg.connect(host=host, port=5432, user="postgres", dbname="postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        database = Database(cluster.url(database=name))
        with stage.console(cluster.url("nottwice_console", database=name)) as url:
            yield Hall(House(database), database, url)
        database.close()
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def hall(cluster: Cluster) -> Iterator[Hall]:
    with built(cluster, f"hall_{os.getpid()}") as made:
        yield made


@pytest.fixture
def alone(cluster: Cluster) -> Iterator[Hall]:
    with built(cluster, f"alone_{os.getpid()}") as made:
        yield made


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Opens an address of a console in a browser of its own, as one more person's would be."""
    opened: list[BrowserContext] = []

    def open_page(hall: Hall, path: str, *, as_: str = "", ready: str = "h1", **context: object) -> Page:
        opened.append(chromium.new_context(viewport={"width": 1280, "height": 1000}, **context))  # type: ignore[arg-type]
        page = opened[-1].new_page()
        page.goto(hall.url + path)
        page.locator(ready).first.wait_for(timeout=30_000)  # a deadline on a busy machine, not a duration
        if as_:
            page.get_by_role("button", name=f"Act as {as_}").click()
            page.get_by_text(f"You act as {as_}").first.wait_for()
        return page

    yield open_page
    for context in opened:
        context.close()
