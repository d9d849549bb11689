"""The console inside the test's process: `AppTest` on the test's own database, under the console's login."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit import config
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from dashboard import session
from tests.browser.stage import CONFIGURATION, HOUSE

App = Callable[..., AppTest]


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, login_url: Callable[[str], str]) -> Iterator[App]:
    """Opens a page as the first, second or third of the people (support, admin, engineer), in a session of its own.

    Without a page it is the address without one, which leads to each role's first page.
    """
    file = tmp_path / "console.toml"  # beside those of workers in the same test
    file.write_text(CONFIGURATION.format(refresh_s=2.0, decided_wait_s=15))
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("NOTTWICE_CONFIG", str(file))
    monkeypatch.setenv("DATABASE_URL", login_url("nottwice_console"))
    before = config.get_option("server.address")
    config.set_option("server.address", "127.0.0.1")
    session.house.clear()

    def open_page(page: str = "", *, person: int = 0, **query: str) -> AppTest:
        at = AppTest.from_file(str(HOUSE / "dashboard" / "app.py"), default_timeout=40)
        at.session_state["person"] = person
        at._page_hash = calc_hash(page) if page else ""  # AppTest.switch_page knows pages that are files only
        for name, value in query.items():
            at.query_params[name] = value
        return at.run()

    yield open_page
    session.house().database.close()
    session.house.clear()
    config.set_option("server.address", before)
