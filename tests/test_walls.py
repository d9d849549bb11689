"""The walls of the house hold, and each of them is broken once on a copy to see that somebody would notice."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
ROOMS = ("ledger", "worker", "dashboard")
CENTRE = (
    "states",
    "errors",
    "retry",
    "digests",
    "clock",
    "event_types",
    "action_keys",
    "records",
    "verdict",
    "payload",
    "mailboxes",
    "provider_facts",
    "sendable",
)
PURE = {
    ".".join(file.relative_to(HOUSE).with_suffix("").parts).removesuffix(".__init__"): file
    for name in CENTRE
    for file in sorted([*(HOUSE / "ledger").glob(f"{name}.py"), *(HOUSE / "ledger" / name).glob("*.py")])
}
NO_NAMES = {"utils", "common", "helpers", "manager", "client"}
SQL = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH \w+ AS)\s")
LINTER = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint(house: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LINTER, "--no-cache", "--config", str(HOUSE / "pyproject.toml")]
    return subprocess.run(command, cwd=house, capture_output=True, text=True, check=False)


def modules(*folders: Path) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            yield file, ast.parse(file.read_text())


def imported(tree: ast.Module) -> set[str]:
    """Every module a file names in an import, wherever the import stands."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names |= {f"{base}.{a.name}" for a in node.names} if base in (*ROOMS, ".") else {base}
    return names


def foreign(tree: ast.Module) -> set[str]:
    """What a pure module may not import."""
    return {n for n in imported(tree) if n.split(".")[0] not in sys.stdlib_module_names and n not in PURE}


def test_walls_hold() -> None:
    done = lint(HOUSE)
    assert done.returncode == 0, done.stdout + done.stderr


BREAKS = [
    ("dashboard/screens/__init__.py", "import worker", "The three processes meet only in rows"),
    ("worker/__init__.py", "import ledger.receiver", "The three processes meet only in rows"),
    ("ledger/receiver/__init__.py", "import dashboard", "The three processes meet only in rows"),
    ("ledger/states.py", "import ledger.receiver", "Nobody imports the receiver"),
    ("ledger/states.py", "import worker", "The ledger imports no process"),
    ("ledger/states.py", "import starlette", "The ledger imports no process"),
    ("ledger/receiver/__init__.py", "import httpx", "The ledger imports no process"),
    ("ledger/states.py", "def late():\n    import streamlit", "The ledger imports no process"),
    ("worker/sandbox/__init__.py", "import sqlalchemy", "Only the ledger talks to the database"),
    ("dashboard/screens/__init__.py", "import psycopg", "Only the ledger talks to the database"),
    ("worker/__init__.py", "import streamlit", "Only the dashboard draws"),
    ("worker/sandbox/__init__.py", "import agentmail", "Only worker.providers talks to a provider"),
    ("dashboard/__init__.py", "import httpx", "The console calls nobody"),
]


@pytest.mark.parametrize(("file", "line", "contract"), BREAKS)
def test_broken_wall_is_noticed(tmp_path: Path, file: str, line: str, contract: str) -> None:
    for room in ROOMS:
        shutil.copytree(HOUSE / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    broken = tmp_path / file
    broken.write_text(f"{broken.read_text()}\n{line}\n")
    done = lint(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"{re.escape(contract)}[^\n]* BROKEN", done.stdout), done.stdout


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_import_only_the_standard_library(name: str) -> None:
    assert foreign(ast.parse(PURE[name].read_text())) == set()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import sqlalchemy.exc", {"sqlalchemy.exc"}),
        ("from ledger.database import Database", {"ledger.database"}),
        ("from ledger import settings", {"ledger.settings"}),
        ("def late():\n    from . import settings", {"..settings"}),
        ("from ledger.states import EventState\nfrom ledger import records\nimport hashlib", set()),
    ],
)
def test_foreign_imports_are_seen(line: str, found: set[str]) -> None:
    assert foreign(ast.parse(line)) == found


def test_every_source_folder_is_a_package() -> None:
    """The linter does not see a folder without `__init__.py`."""
    folders = {file.parent for room in ROOMS for file in (HOUSE / room).rglob("*.py")}
    assert [str(f.relative_to(HOUSE)) for f in folders if not (f / "__init__.py").exists()] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [str(f) for f, _ in modules(*(HOUSE / r for r in ROOMS)) if f.stem in NO_NAMES] == []


def test_screens_hold_no_sql() -> None:
    texts = (
        (file.name, node.value)
        for file, tree in modules(HOUSE / "dashboard")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert [(name, text) for name, text in texts if SQL.match(text)] == []
