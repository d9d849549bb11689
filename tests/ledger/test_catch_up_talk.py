"""One question, one answer; what breaks off is nothing, and what goes wrong is said once."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledger.catch_up.talk import Child
from ledger.errors import Misconfigured, Unavailable
from tests import starts
from tests.fix_home import HANGS_S

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
Echo = Callable[..., tuple[int, bytes, bytes]]
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


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[Echo]:
    """A child that is asked so many bytes and no more: its exit code, what it answered, what it said."""
    script, asked = tmp_path / "echo.py", tmp_path / "asked"
    script.write_text(ECHO)
    with tempfile.TemporaryFile() as answers, tempfile.TemporaryFile() as errors:

        def run(question: bytes, answered_to: int | None = None) -> tuple[int, bytes, bytes]:
            asked.write_bytes(question)
            to = answers.fileno() if answered_to is None else answered_to
            with asked.open("rb") as given:
                streams = {"stdin": given.fileno(), "stdout": to, "stderr": errors.fileno()}
                code = starts.start([script], env=os.environ, **streams).wait(HANGS_S)
            answers.seek(0)
            errors.seek(0)
            return code, answers.read(), errors.read()

        yield run


def test_a_child_whose_asker_is_gone_ends_without_a_word(echo: Echo) -> None:
    """As when the command is stopped while it waits: what nobody reads is no fault."""
    gone, its_end = os.pipe()
    os.close(gone)
    try:
        code, _, said = echo(json.dumps({"ask": "count", "x": 1, "sizes": []}).encode() + b"\n", its_end)
    finally:
        os.close(its_end)
    assert (code, sorted(said.splitlines())) == (0, [b"asked", b"noise, which is no answer"])


@pytest.mark.parametrize("kept", [10, -1, -3], ids=["half a line", "half a body", "hardly a body"])
def test_a_question_that_broke_off_is_not_answered(echo: Echo, kept: int) -> None:
    """As when the asking side is interrupted while it writes: half a body must not be stored."""
    question = json.dumps({"ask": "count", "x": 1, "sizes": [3]}).encode() + b"\n" + b"abc"
    assert echo(question[:kept]) == (0, b"", b"")
