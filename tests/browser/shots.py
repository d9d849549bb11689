"""What a picture of the console is, and what an album of them needs before it is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page

from ledger.database import Database

Ids = dict[str, int]


def nothing(page: Page) -> None:
    """The page as it comes."""


def with_charts(page: Page) -> None:
    """With the first of its charts, which come after the figures; the camera waits for the others."""
    page.locator("[data-testid='stPlotlyChart'] .main-svg").first.wait_for()


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture. `path` may name an id of the seeded desk, as in `{receipt}`; `ready` is a text to wait for.

    `whole`: the page to its end, not only its first screen.
    """

    name: str
    path: str
    ready: str
    act: Callable[[Page], None] = nothing
    dark: bool = False
    width: int = 1280
    whole: bool = False


def no_change(database: Database, ids: Ids) -> None:
    """The house as the album before left it."""


@dataclass(frozen=True, slots=True)
class Album:
    """Pictures of one state of the house. `before` brings it there, and adds the ids that addresses may name."""

    shots: tuple[Shot, ...]
    before: Callable[[Database, Ids], None] = no_change
