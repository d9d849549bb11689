"""The console inside the test's process: `AppTest` on the test's own database, under the console's login."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from streamlit import config
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from dashboard import session
from tests.browser.stage import CONFIGURATION, HOUSE

App = Callable[..., AppTest]

# Each AppTest looks anew which installed packages bring components, and reads all their metadata four times: two
# thirds of what a page costs, and always the same answer. A server does it once, at its start.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)


@contextmanager
def opened(url: str, folder: Path) -> Iterator[App]:
    """The console on a database, in this process. `url` is of the console's login."""
    file = folder / "console.toml"  # beside those of workers in the same test
    file.write_text(CONFIGURATION.format(refresh_s=2.0, decided_wait_s=15))
    before = config.get_option("server.address")
    config.set_option("server.address", "127.0.0.1")
    session.house.clear()

    def open_page(page: str = "", *, person: int = 0, charts: bool = False, **query: str) -> AppTest:
        at = AppTest.from_file(str(HOUSE / "dashboard" / "app.py"), default_timeout=40)
        at.session_state["person"] = person
        if charts:
            at.session_state["draws_charts"] = True
        at._page_hash = calc_hash(page) if page else ""  # AppTest.switch_page knows pages that are files only
        for name, value in query.items():
            at.query_params[name] = value
        return at.run()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOTTWICE_HOME", str(folder))
        patch.setenv("NOTTWICE_CONFIG", str(file))
        patch.setenv("DATABASE_URL", url)
        yield open_page
        session.house().database.close()
        session.house.clear()
        config.set_option("server.address", before)


def seen_at_900_px(table: Any) -> list[str]:
    """The columns of a list that stand there whole without a sideways scroll: 750 px, less 35 of the boxes."""
    widths = json.loads(table.proto.columns)
    names, ends = list(table.value.columns), accumulate(widths[name]["width"] for name in table.value.columns)
    return [name for name, end in zip(names, ends, strict=True) if end <= 715]


@pytest.fixture
def app(tmp_path: Path, login_url: Callable[[str], str]) -> Iterator[App]:
    """Opens a page as the first, second or third of the people (support, admin, engineer), in a session of its own.

    Without a page it is the address without one, which leads to each role's first page. A page draws its charts in a second
    run, which begins it anew; with `charts` in its first.
    """
    with opened(login_url("nottwice_console"), tmp_path) as open_page:
        yield open_page
