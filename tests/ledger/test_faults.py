"""The fault points that crash tests use: they strike where and when they say, and cost nothing unset."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ledger.errors import Misconfigured
from ledger.faults import parse

THREE_PASSAGES = """
from ledger import faults
for passage in range(3):
    faults.point("here")
    print(passage, flush=True)
"""


def run(fault: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NOTTWICE_FAULT": fault}
    return subprocess.run(
        [sys.executable, "-c", THREE_PASSAGES],
        env=environment,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )


@pytest.mark.parametrize(("fault", "passed"), [("here=kill", 0), ("here=kill@2", 1), ("here=kill@9", 3)])
def test_a_process_is_killed_at_the_passage_named(fault: str, passed: int) -> None:
    process = run(fault)
    assert process.stdout.split() == [str(n) for n in range(passed)]
    assert process.returncode == (0 if passed == 3 else -signal.SIGKILL)


def test_it_says_so_first_on_one_line() -> None:
    said = json.loads(run("here=kill").stderr)
    assert (said["event"], said["point"], said["deed"]) == ("fault", "here", "kill")


def test_other_points_and_no_fault_change_nothing() -> None:
    assert run("there=kill").returncode == run("").returncode == 0


def test_a_thread_is_held_until_a_file_is_there(tmp_path: Path) -> None:
    go = tmp_path / "go"
    environment = os.environ | {"NOTTWICE_FAULT": f"here=file:{go}@2"}
    with subprocess.Popen(
        [sys.executable, "-c", THREE_PASSAGES], env=environment, stdout=subprocess.PIPE, text=True
    ) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == "0\n"
        time.sleep(0.1)
        assert held.poll() is None
        go.touch()
        assert held.wait(40) == 0


def test_several_faults_stand_in_one_variable() -> None:
    assert set(parse(" a.b=stop ; c=sleep:1.5@2;d=file:/x@y@3;")) == {"a.b", "c", "d"}
    assert parse("d=file:/x@y@3")["d"].deed == "file:/x@y"


@pytest.mark.parametrize("text", ["a", "a=explode", "a=sleep:soon", "=kill", "a=kill@x"])
def test_what_is_not_of_the_form_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="NOTTWICE_FAULT"):
        parse(text)
