"""Processes under test, started in milliseconds: each is forked by one that has everything imported, the nest.

An interpreter and the imports of a worker are 0.6 s of CPU, most of what such a test costs, and the same each time.
What is forked is a process as any other: its own pid, connections, environment, working folder and standard streams;
it runs the module's own `__main__`, can be signalled, frozen and killed, and has an exit code. It differs in what is
imported already. What it starts of our programs, or becomes, is forked too (`spawning`). So what a test proves about
the start itself (its imports, its length, the memory of a whole process, what Python's own variables change) is
started by `subprocess`, or `anew`, with all that it starts.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tests.starts.process import Nest, Process

__all__ = ["Running", "close", "run", "start", "telling"]

ENDS_WITHIN_S = 40.0  # a deadline on a busy machine, not a duration
Command = Sequence[str | Path]
Running = Process | subprocess.Popen[bytes]

_nests: dict[str, Nest] = {}  # of each kind one in each process of the run, from the first start on


def start(
    command: Command,
    *,
    env: Mapping[str, str],
    stdin: int = 0,
    stdout: int = 1,
    stderr: int = 2,
    anew: bool = False,
    folder: Path | None = None,
    kind: str = "house",
) -> Running:
    """`python -m MODULE …` or a script of Python, with these file descriptors; without one, those of the run itself.

    `anew`: by an interpreter of its own. `kind`: of the nest, which has imported what such a program imports.
    """
    if anew or _changes_python(env):
        return subprocess.Popen(command, env=env, cwd=folder, stdin=stdin, stdout=stdout, stderr=stderr)
    if kind not in _nests:
        _nests[kind] = Nest(kind)
    words, streams = [str(part) for part in command], [stdin, stdout, stderr]
    return _nests[kind].start(words, env, folder or Path.cwd(), streams)


def _changes_python(env: Mapping[str, str]) -> bool:
    """Whether the interpreter itself would look into this environment when it starts."""
    return (env.get("PYTHONPATH") or "") != os.environ.get("PYTHONPATH", "")


def run(command: Command, *, env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """It, once it has ended, with what it said; nothing is on its stdin."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as told, Path(os.devnull).open() as void:
        process = start(command, env=env, stdin=void.fileno(), stdout=said.fileno(), stderr=told.fileno())
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        said.seek(0)
        told.seek(0)
        return subprocess.CompletedProcess(command, code, said.read().decode(), told.read().decode())


@contextmanager
def telling(command: Command, *, env: Mapping[str, str]) -> Iterator[tuple[Running, TextIO]]:
    """It, and what it says on both its streams as it says it; nothing is on its stdin. At the end it is waited for."""
    said, its_end = os.pipe()
    with Path(os.devnull).open() as void, os.fdopen(said, errors="replace") as told:
        try:
            process = start(command, env=env, stdin=void.fileno(), stdout=its_end, stderr=its_end)
        finally:
            os.close(its_end)
        try:
            yield process, told
            process.wait(ENDS_WITHIN_S)
        finally:
            process.kill()


def close() -> None:
    """End the nests, and what is left of their children."""
    while _nests:
        _nests.popitem()[1].close()
