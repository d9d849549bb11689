"""One question, one answer; what breaks off is nothing, and what goes wrong is said once."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ledger.catch_up.talk import Child
from ledger.errors import Misconfigured, Unavailable

ECHO = """
import sys
from ledger.catch_up.talk import serve
from ledger.errors import Misconfigured, Unavailable

def answer(question, bodies):
    print("noise, which is no answer")
    sys.stderr.write("asked\\n")
    if question["ask"] == "exit":
        sys.exit(3)
    if question["ask"] in ("Misconfigured", "Unavailable"):
        raise {"Misconfigured": Misconfigured, "Unavailable": Unavailable}[question["ask"]]("a sentence")
    return {"sizes": [len(body) for body in bodies], "x": question["x"]}

serve(answer)
"""
COMMAND = (sys.executable, "-c", ECHO)


def test_questions_bodies_answers_and_errors_pass() -> None:
    with Child(COMMAND, os.environ) as child:
        big = [b"", b"a\nb\x00", b"x" * 1_000_000]
        assert child.ask("count", big, x="é\n") == {"sizes": [0, 4, 1_000_000], "x": "é\n"}
        for kind in (Misconfigured, Unavailable):
            with pytest.raises(kind, match="a sentence"):
                child.ask(kind.__name__)
        assert child.ask("count", x=2) == {"sizes": [], "x": 2}
        with pytest.raises(Unavailable, match="ended in the middle"):
            child.ask("exit")


def test_a_child_whose_asker_is_gone_ends_without_a_word() -> None:
    """As when the command is stopped while it waits: what nobody reads is no fault."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(COMMAND, **pipes) as child:
        assert child.stdin and child.stdout and child.stderr
        child.stdout.close()
        child.stdin.write(json.dumps({"ask": "count", "x": 1, "sizes": []}).encode() + b"\n")
        child.stdin.close()
        said = child.stderr.read()
    assert (child.returncode, sorted(said.splitlines())) == (0, [b"asked", b"noise, which is no answer"])


@pytest.mark.parametrize("kept", [10, -1, -3], ids=["half a line", "half a body", "hardly a body"])
def test_a_question_that_broke_off_is_not_answered(kept: int) -> None:
    """As when the asking side is interrupted while it writes: half a body must not be stored."""
    question = json.dumps({"ask": "count", "x": 1, "sizes": [3]}).encode() + b"\n" + b"abc"
    done = subprocess.run(COMMAND, input=question[:kept], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
