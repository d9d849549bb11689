"""The page about stuck work: its commands are typed as they stand there, and answer as it says."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ledger.cli import app
from ledger.events.recovery import MORE_ATTEMPTS
from ledger.settings import AlertSettings
from ledger.settings.processes import ReprocessSettings
from tests.docs.book import answers, blocks, commands
from tests.fix_events import Ledger
from tests.fix_home import UNSAFE

PAGE = Path(__file__).parents[2] / "docs" / "stuck.md"
PEOPLE = """
[[console.people]]
name = "Bo Lindqvist"
email = "bo@example.com"
role = "engineer"

[[console.people]]
name = "Ana"
email = "ana@example.com"
role = "admin"
"""
SET_ASIDE = """UPDATE nottwice.events SET state = 'failed', due_at = NULL, ended_at = now(), attempts = 5,
                      last_error = 'ValueError: no such invoice'"""


def test_the_page_is_followed(
    book: Ledger, login_url: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.toml").write_text(UNSAFE + PEOPLE)
    monkeypatch.setenv("DATABASE_URL", login_url("nottwice_console"))
    monkeypatch.setenv("NOTTWICE_CONFIG", str(tmp_path / "page.toml"))
    book.stored(*(f"evt_{n}" for n in range(1, 5)))
    book.run(SET_ASIDE)
    typed = 0
    for block in blocks(PAGE):
        if "limit" in block.words:
            book.run("INSERT INTO nottwice.reprocess_limit (second_person_above) VALUES (2)")
        for command in commands(block.text) if block.language == "console" else ():
            done = CliRunner().invoke(app, shlex.split(command.typed)[1:])
            assert answers(done.output, command.expected), f"$ {command.typed}\n{done.output}"
            typed += 1
    assert typed == 6
    assert book.value("SELECT count(*) FROM nottwice.events WHERE state = 'pending'") == 4


def test_the_page_names_what_the_code_does() -> None:
    text = PAGE.read_text("utf-8")
    assert MORE_ATTEMPTS == 5 and "Five more attempts" in text
    assert (
        f"second_person_above` says ({ReprocessSettings.model_fields['second_person_above'].default})" in text
    )
    assert "pending_s" in AlertSettings.model_fields
