"""Runs a page of the manual as a reader would: its files are written, its commands typed, its answers compared.

In a fenced block the word behind the language says what it is:

    ```toml nottwice.toml       a file of that name, in the reader's folder
    ```console                  commands behind `$`, and below each what it answers; `…` stands for anything
    ```console second-terminal  the last command stays; the reader goes on once it has said what stands there
    ```console until            asked again and again until it answers so

Blocks of any other kind are for the eye.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

WITHIN_S = 60.0  # a busy machine takes long to start five processes
FENCE = re.compile(r"^```(\w+)[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = ("toml", "python", "sql", "json")


@dataclass(frozen=True)
class Block:
    language: str
    words: str
    text: str


@dataclass(frozen=True)
class Command:
    """What is typed, and the lines that must come, in this order; None: whatever comes."""

    typed: str
    expected: tuple[str, ...]


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in FENCE.findall(page.read_text("utf-8"))]


def commands(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        typed, _, expected = part.partition("\n")
        yield Command(typed, tuple(line for line in expected.splitlines() if line.strip()))


class Reader:
    """Somebody with a folder and a few terminals, who follows a page. Use as a context: it closes the terminals."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "COLUMNS": "120", **environment}
        self._terminals: list[subprocess.Popen[bytes]] = []
        self._said = 0

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        for terminal in reversed(self._terminals):
            with suppress(ProcessLookupError):
                os.killpg(terminal.pid, signal.SIGTERM)
            terminal.wait(WITHIN_S)

    def follow(self, page: Path) -> int:
        """Returns how many blocks were done."""
        todo = [block for block in blocks(page) if self._is_for_me(block)]
        for block in todo:
            self._do(block)
        return len(todo)

    @staticmethod
    def _is_for_me(block: Block) -> bool:
        return block.language == "console" or (block.language in FILES and bool(block.words))

    def _do(self, block: Block) -> None:
        if block.language in FILES:
            file = self.folder / block.words
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, "utf-8")
        elif block.words == "second-terminal":
            self._open_terminal(list(commands(block.text)))
        else:
            for command in commands(block.text):
                self._type(command, patient=block.words == "until")

    def _type(self, command: Command, *, patient: bool) -> None:
        deadline = time.monotonic() + WITHIN_S
        while True:
            code, said = self._run(command.typed)
            if code == 0 and answers(said, command.expected):
                return
            if not patient or time.monotonic() > deadline:
                raise AssertionError(f"$ {command.typed}\nexit code {code}:\n{said}")
            time.sleep(0.1)

    def _run(self, typed: str) -> tuple[int, str]:
        """In a shell that leaves its variables to the next one, as one terminal does."""
        kept = self.folder / ".variables"
        script = f"{typed}\ncode=$?; export -p > {shlex.quote(str(kept))}; exit $code"
        before = f". {shlex.quote(str(kept))}; " if kept.exists() else ""
        done = subprocess.run(
            ["bash", "-c", before + script],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        return done.returncode, done.stdout

    def _open_terminal(self, typed: list[Command]) -> None:
        *before, last = typed
        log = self.folder / f".terminal-{len(self._terminals)}"
        script = "\n".join([*(command.typed for command in before), f"exec {last.typed}"])
        with log.open("wb") as out:
            terminal = subprocess.Popen(
                ["bash", "-ec", script],
                cwd=self.folder,
                env=self.environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._terminals.append(terminal)
        deadline = time.monotonic() + WITHIN_S
        while not answers(log.read_text(errors="replace"), last.expected):
            assert terminal.poll() is None, f"$ {last.typed} ended:\n{log.read_text(errors='replace')}"
            assert time.monotonic() < deadline, (
                f"$ {last.typed} said only:\n{log.read_text(errors='replace')}"
            )
            time.sleep(0.05)


def answers(said: str, expected: tuple[str, ...]) -> bool:
    """Whether the expected lines come in this order; a line that is `…` alone stands for any number of lines."""
    if not expected:
        return True
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    return fnmatch.fnmatchcase("\n".join(lines) + "\n", _pattern(expected))


def _pattern(expected: tuple[str, ...]) -> str:
    parts = ["*" if line.strip() == "…" else _literal(line) + "\n" for line in expected]
    return "".join(parts) + "*"


def _literal(line: str) -> str:
    return re.sub(r"([\[*?])", r"[\1]", line.rstrip()).replace("…", "*")
