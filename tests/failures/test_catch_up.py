"""Catch-up with real processes: killed, stopped, repeated, and what was answered is not answered again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.failures.house import House

LINES = 650  # more than three batches

CatchUp = Callable[..., subprocess.CompletedProcess[str]]


@contextmanager
def begun(chain: House, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "ledger.cli", "catch-up", *arguments],
        env=chain.environment | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        yield process


@pytest.fixture
def catch_up(chain: House) -> CatchUp:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        with begun(chain, *arguments, **environment) as process:
            said, _ = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, said)

    return run


@pytest.fixture
def file(chain: House) -> Path:
    path = chain.home / "events.jsonl"
    path.write_text("".join(json.dumps({"id": f"k{n}", "type": "order.placed"}) + "\n" for n in range(LINES)))
    return path


def events(chain: House) -> tuple[Any, ...]:
    return tuple(chain.rows("SELECT count(*), count(DISTINCT event_key) FROM nottwice.events")[0])


def test_a_file_that_was_stopped_twice_is_taken_in_whole_and_once(
    chain: House, catch_up: CatchUp, file: Path
) -> None:
    """Killed between a commit and the place that is kept after it; then a Ctrl-C in the middle of a commit."""
    killed = catch_up("shop", "--file", str(file), "--go", NOTTWICE_FAULT="receiver.after_commit=kill@2")
    assert killed.returncode == 1 and "the same command goes on from there" in killed.stdout
    assert events(chain) == (400, 400)

    may_go = chain.home / "go"
    held = f"receiver.before_commit=file:{may_go}@2"
    with begun(chain, "shop", "--file", str(file), "--go", NOTTWICE_FAULT=held) as process:
        assert process.stdout is not None
        assert '"receiver.before_commit"' in process.stdout.readline(), "the third batch waits for its commit"
        process.send_signal(signal.SIGINT)
        may_go.touch()
        said = process.stdout.read()
    assert process.returncode == 1 and "Went on after line 200." in said and "Stopped." in said, said

    whole = catch_up("shop", "--file", str(file), "--go")
    assert whole.returncode == 0, whole.stdout
    assert "Went on after line 400." in whole.stdout and f"{LINES:,} lines" in whole.stdout
    assert events(chain) == (LINES, LINES)
    keys = chain.rows("SELECT event_key FROM nottwice.events ORDER BY id")
    assert [row.event_key for row in keys] == [f"order.placed k{n}" for n in range(LINES)], (
        "in the file's order"
    )


def test_bad_lines_are_named_and_stop_nobody(chain: House, catch_up: CatchUp) -> None:
    path = chain.home / "bad.jsonl"
    path.write_text('{"id": "a", "type": "t"}\nno json\n\n{"type": "t"}\n{"id": "a", "type": "t", "x": 1}\n')
    looked = catch_up("shop", "--file", str(path))
    assert looked.returncode == 1 and "2 would be new" in looked.stdout and "--go" in looked.stdout
    assert events(chain) == (0, 0) and chain.value("SELECT count(*) FROM nottwice.quarantine") == 0
    done = catch_up("shop", "--file", str(path), "--go")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "line 2: nothing was stored of it: It is not JSON (character 0).",
        "line 4: to quarantine: It has no usable key.",
        "line 5: the key is known with other content; this one is kept as a conflict",
        f"Taken in: 4 lines of file {path} for shop: 1 new, 1 known with other content, "
        "1 without a usable key or shape, 1 unreadable.",
    ]


def test_what_cannot_begin_is_one_sentence(chain: House, catch_up: CatchUp, file: Path) -> None:
    for arguments, sentence in (
        (("nobody", "--file", str(file)), "There is no [sources.nobody]"),
        (("shop", "--file", str(file) + "x"), "cannot be read"),
        (("shop",), "Say where from"),
    ):
        done = catch_up(*arguments)
        assert done.returncode == 2 and sentence in done.stdout and "Traceback" not in done.stdout, (
            done.stdout
        )
