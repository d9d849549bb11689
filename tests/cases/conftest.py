"""A real worker behind the shared door, for cases that end in work done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests import fix_receiver as fix
from tests.fix_receiver import Door
from tests.fix_worker import Process

Work = Callable[[str], Process]

CONFIG = (
    fix.CONFIG
    + """
[worker]
handlers = "case_handlers"
lease_s = 5.0
patience_s = 0.2

[providers.post]
kind = "agentmail"
base_url = "http://127.0.0.1:9"
key = "POST_KEY"
window_s = 86400
margin_s = 60
timeout_s = 5

[actions.reply]
provider = "post"
approval = true
"""
)
PRELUDE = "from ledger.records import Email\nfrom worker.handlers import Handlers\n\nhandlers = Handlers()\n"


@pytest.fixture
def work(door: Door, tmp_path: Path) -> Iterator[Work]:
    """`work(HANDLERS)` starts a worker on the door's database; a `reply` it proposes waits for a person."""
    started: list[Process] = []
    url = sa.make_url(door.database_url).set(username="nottwice_worker")

    def start(handlers: str) -> Process:
        (tmp_path / "case_handlers.py").write_text(PRELUDE + handlers)
        (tmp_path / "worker.toml").write_text(CONFIG)
        environment = os.environ | {
            "NOTTWICE_HOME": str(tmp_path),
            "NOTTWICE_CONFIG": str(tmp_path / "worker.toml"),
            "NOTTWICE_SECRET_POST_KEY": "a key nobody asks for",
            "DATABASE_URL": url.render_as_string(hide_password=False),
        }
        started.append(Process(environment))
        return started[-1]

    yield start
    for process in started:
        process.end()
