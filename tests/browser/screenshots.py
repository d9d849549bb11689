"""Pictures of the console: `make screenshots`, or `python -m tests.browser.screenshots [FOLDER]`.

Without a folder, into docs/images. The house in them is seeded (tests/fix_seed.py): the same names, numbers and ages
every time. Only the hours on the clock are today's.
A page that was added to the console brings an album of its own, `shots_*.py`, and is named here.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page

from ledger import schema
from ledger.database import Database
from ledger.embedded import Cluster
from tests.browser import (
    oidc,
    shots_desk,
    shots_events,
    shots_health,
    shots_record,
    shots_reprocess,
    shots_sign_in,
    shots_stuck,
)
from tests.browser.shots import Album, Ids, Shot
from tests.browser.stage import HOUSE, WAIT_MS, browser, console, settled

# A grey bar stands where a chart was told of and is still to be drawn.
NOTHING_TO_COME = "() => !document.querySelector('[data-testid=\"stSkeleton\"]')"
IMAGES = HOUSE / "docs" / "images"
ALBUMS: tuple[Album, ...] = (
    *shots_events.EMPTY_ALBUMS,
    *shots_reprocess.EMPTY_ALBUMS,
    *shots_stuck.EMPTY_ALBUMS,
    *shots_desk.ALBUMS,
    *shots_events.ALBUMS,
    *shots_record.ALBUMS,
    *shots_reprocess.ALBUMS,
    *shots_stuck.ALBUMS,
    *shots_health.ALBUMS,
)


class Photographer:
    """Takes one picture after another of one console; `ids` are what its addresses may name."""

    def __init__(self, started: Browser, url: str, folder: Path, ids: Ids) -> None:
        self._browser, self._url, self._folder, self._ids = started, url, folder, ids

    def warm(self) -> None:
        """Look once, at nothing in particular."""
        page = self._browser.new_page()
        page.goto(self._url)
        settled(page)
        page.close()

    def take(self, shot: Shot) -> None:
        view = self._browser.new_context(
            viewport={"width": shot.width, "height": 800}, color_scheme="dark" if shot.dark else "light"
        )
        page = view.new_page()
        page.goto(self._url + shot.path.format_map(self._ids))
        page.get_by_text(shot.ready).first.wait_for(timeout=WAIT_MS)
        settled(page)
        shot.act(page)
        page.wait_for_function(NOTHING_TO_COME, timeout=WAIT_MS)
        page.wait_for_timeout(700)  # fonts, and Plotly's chunk: a picture has no other sign of being complete
        if shot.whole:
            page.set_viewport_size({"width": shot.width, "height": self._height(page)})
            page.wait_for_timeout(300)
        _kept(page.screenshot(), self._folder / f"{shot.name}.png")
        view.close()

    @staticmethod
    def _height(page: Page) -> int:
        """As high as its content: a picture of the whole page ends where the page does."""
        main = page.locator("[data-testid='stMainBlockContainer']").bounding_box()
        return max(800, int(main["y"] + main["height"])) if main else 1700


def _kept(picture: bytes, file: Path) -> None:
    """In 256 colours: no eye sees it, and a clone carries a third of the bytes."""
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        file, optimize=True
    )


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="nottwice-pictures-", dir="/tmp"))
    home.chmod(0o711)
    server = Cluster(home, settings={"fsync": "off"})
    try:
        server.ensure()
        schema.migrate(server.url())
        with browser() as started, console(server.url("nottwice_console"), refresh_s=2.0) as url:
            _take_way_in(server, started, folder)
            _take_all(server, Photographer(started, url, folder, ids := {}), ids)
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _take_way_in(server: Cluster, started: Browser, folder: Path) -> None:
    with oidc.provider() as provider, oidc.console(server.url("nottwice_console"), provider) as url:
        camera = Photographer(started, url, folder, {})
        for shot in shots_sign_in.shots(provider):
            camera.take(shot)


def _take_all(server: Cluster, camera: Photographer, ids: Ids) -> None:
    """The console is warm before a house is filled, so that the ages in the pictures are those that were seeded."""
    camera.warm()
    database = Database(server.url())
    for album in ALBUMS:
        album.before(database, ids)
        for shot in album.shots:
            camera.take(shot)
    camera.take(
        Shot("database-gone", "/overview", "Work in hand", lambda page: _stop(page, server, database))
    )
    database.close()


def _stop(page: Page, server: Cluster, database: Database) -> None:
    database.close()
    server.stop()
    page.get_by_text("The database cannot be reached").wait_for()


if __name__ == "__main__":
    main()
