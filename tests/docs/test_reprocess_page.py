"""The page about reprocessing: its commands are typed as they stand there, and answer as it says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ledger.cli import app
from ledger.settings.processes import ReprocessSettings
from tests.docs.book import answers, blocks, commands
from tests.fix_reprocess import POST, Shop

PAGE = Path(__file__).parents[2] / "docs" / "reprocess.md"
ROW = re.compile(r"^\| `(\w+)` \| (\d+) \| (?:rows|events)", re.MULTILINE)
PEOPLE = """
[database]
allow_unsafe = true

[[console.people]]
name = "Bo Lindqvist"
email = "bo@example.com"
role = "engineer"

[[console.people]]
name = "Ana"
email = "ana@example.com"
role = "support"
"""


def test_the_page_is_followed(
    shop: Shop, login_url: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.toml").write_text(PEOPLE + POST)
    shop.sell(3)
    shop.settle()
    typed = 0
    for block in blocks(PAGE):
        for command in commands(block.text) if block.language == "console" else ():
            if "--mode preview" in command.typed:  # the rule that the page speaks of has changed
                shop.text, shop.keys = "Paid in full.", ("receipt:{id}", "thanks:{id}")
            _carry_out(shop)
            monkeypatch.setenv("DATABASE_URL", login_url("nottwice_console"))
            monkeypatch.setenv("NOTTWICE_CONFIG", str(tmp_path / "page.toml"))
            done = CliRunner().invoke(app, shlex.split(command.typed)[1:])
            assert done.exit_code == 0, done.output
            assert answers(done.stdout, command.expected), f"$ {command.typed}\n{done.stdout}"
            typed += 1
    assert typed == 10


def _carry_out(shop: Shop) -> None:
    """What workers do meanwhile."""
    while shop.workshop.value("SELECT count(*) FROM nottwice.reprocess_runs WHERE state = 'running'"):
        shop.turn(wait_s=15.0)
        shop.work_off()


def test_the_table_names_every_setting_with_its_default() -> None:
    told = {name: float(value) for name, value in ROW.findall(PAGE.read_text("utf-8"))}
    assert told == {name: float(field.default) for name, field in ReprocessSettings.model_fields.items()}
