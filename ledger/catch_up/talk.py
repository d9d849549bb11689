"""How the processes of a catch-up talk: one question, one answer, over a child's standard input and output.

A question is one line of JSON, which says how many bytes of bodies follow it; an answer is one line of JSON. Strictly
in turn, so that neither waits for a pipe that the other fills. A child whose input ends has nothing left to do, and ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, BinaryIO

from ledger.errors import LedgerError, Misconfigured, Unavailable

ENDS_WITHIN_S = 10.0  # a commit that is under way
Question = Mapping[str, Any]
Answer = Callable[[Question, list[bytes]], dict[str, Any]]


class Child:
    """The asking side. Use as a context: at its end the child is told to end, and waited for."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is ours
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe:
                    pipe.close()
        try:
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ask(self, what: str, bodies: Sequence[bytes] = (), **facts: Any) -> dict[str, Any]:
        """Raises Misconfigured or Unavailable with the child's own sentence."""
        question = {"ask": what, **facts, "sizes": [len(body) for body in bodies]}
        line = b""
        with suppress(OSError):
            _write(self._process.stdin, json.dumps(question).encode() + b"\n" + b"".join(bodies))
            line = self._process.stdout.readline() if self._process.stdout else b""
        if not line.endswith(b"\n"):
            raise Unavailable("A process of the catch-up ended in the middle of its work.")
        answer: dict[str, Any] = json.loads(line)
        if "misconfigured" in answer:
            raise Misconfigured(answer["misconfigured"])
        if "unavailable" in answer:
            raise Unavailable(answer["unavailable"])
        return answer


def serve(answer: Answer) -> None:
    """The answering side: until the input ends, or nobody hears us. What the ledger raises becomes the answer.

    Standard output belongs to the answers alone: what anybody else writes there goes to standard error.
    """
    # Around the file too: what could not be written is written once more when it is closed.
    with suppress(BrokenPipeError), os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        while asked := _question(sys.stdin.buffer):
            question, bodies = asked
            _write(out, json.dumps(_answered(answer, question, bodies)).encode() + b"\n")


def _question(pipe: BinaryIO) -> tuple[dict[str, Any], list[bytes]] | None:
    """The next one; None at the end, and for one that broke off: half a body must not be taken for one."""
    line = pipe.readline()
    if not line.endswith(b"\n"):
        return None
    question: dict[str, Any] = json.loads(line)
    sizes = question.pop("sizes")
    bodies = [pipe.read(size) for size in sizes]
    return (question, bodies) if [len(body) for body in bodies] == sizes else None


def _answered(answer: Answer, question: Question, bodies: list[bytes]) -> dict[str, Any]:
    try:
        return answer(question, bodies)
    except Misconfigured as error:
        return {"misconfigured": str(error)}
    except LedgerError as error:
        return {"unavailable": str(error)}


def _write(pipe: Any, data: bytes) -> None:
    stream: BinaryIO = pipe
    stream.write(data)
    stream.flush()
