"""The manual is right: each page is followed, each link leads somewhere, each command exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger.running.processes import module
from ledger.simulated.examples import message_received
from tests.docs.book import Reader, blocks
from tests.fix_sandbox import Sandbox
from worker.sandbox import truth

ROOT = Path(__file__).parents[2]
PAGES = [page for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")) if page.name != "LICENSE.md"]
LINK = re.compile(r"\]\(([^)#\s]+)")
NOTTWICE = re.compile(r"(?:^|[`$ ;|&])nottwice ([a-z][a-z-]*(?: [a-z]+)?)", re.MULTILINE)


@pytest.fixture
def ports(unused_ports: Callable[[int], list[int]]) -> dict[str, str]:
    names = ("RECEIVER", "CONSOLE", "SANDBOX")
    return {f"NOTTWICE_{name}_PORT": str(port) for name, port in zip(names, unused_ports(3), strict=True)}


def test_a_handler_is_written_and_answers(tmp_path: Path, ports: dict[str, str]) -> None:
    with Reader(tmp_path, ports) as reader:
        assert reader.follow(ROOT / "docs" / "write-a-handler.md") == 9


def test_an_outage_is_caught_up(
    tmp_path: Path, ports: dict[str, str], database_url: str, sandbox: Sandbox
) -> None:
    for hours in (5, 4, 3):
        at = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
        event = json.loads(message_received("ana@example.com", "Question", "Why?"))
        event["message"]["timestamp"] = at
        sandbox.http.post("/sandbox/incoming", json=event).raise_for_status()
    secrets = {
        "AGENTMAIL_WEBHOOK": "whsec_bm90IHR3aWNl",
        "SHOP_WEBHOOK": "not twice",
        "AGENTMAIL_API": "am-key",
    }
    named = {f"NOTTWICE_SECRET_{name}": secret for name, secret in secrets.items()}
    at_sandbox = {"NOTTWICE_SANDBOX_PORT": sandbox.url.rpartition(":")[2], "DATABASE_URL": database_url}
    with Reader(tmp_path, ports | named | at_sandbox) as reader:
        assert reader.follow(ROOT / "docs" / "catch-up.md") == 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_compiles(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            compile(block.text, page.name, "exec")


def test_the_first_ten_minutes_find_a_worker_among_the_processes() -> None:
    (pattern,) = re.findall(r"grep '([^']+)'", (ROOT / "docs" / "first-ten-minutes.md").read_text("utf-8"))
    assert re.search(pattern, " ".join(module("worker")))


def test_the_first_ten_minutes_ask_for_the_truth_as_it_says_itself() -> None:
    page = (ROOT / "docs" / "first-ten-minutes.md").read_text("utf-8")
    (line,) = re.findall(r"^NOTTWICE_HOME=var \.venv/bin/(python .*?) +# and (\w+),", page, re.MULTILINE)
    assert line[0] == "python -m worker.sandbox.truth" and f"{line[1]}=... {line[0]}" in truth.HOUSE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_needs_a_port_that_the_reader_did_not_choose(page: Path) -> None:
    assert re.findall(r"\$\{?NOTTWICE_\w+_PORT(?!\w|:-)", page.read_text("utf-8")) == []


def test_every_command_that_is_named_exists() -> None:
    named = {word for page in PAGES for word in NOTTWICE.findall(page.read_text("utf-8"))}
    assert len(named) > 5
    known = _commands()
    for words in named:
        assert words.split()[0] in known, f"there is no `nottwice {words}`"


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for page in PAGES:
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name} names make {target}"


def _commands() -> set[str]:
    help_ = subprocess.run(
        [Path(sys.executable).with_name("nottwice"), "--help"], capture_output=True, text=True, check=True
    ).stdout
    return set(re.findall(r"^[│ ]+([a-z][a-z-]+) {2,}", help_, re.MULTILINE))
