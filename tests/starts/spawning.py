"""What a process of the nest starts itself: programs of ours are forked by it, everything else is started as ever.

`nottwice up` starts a receiver, workers and rehearsals of both, each an interpreter that imports what `up` has
imported; `nottwice work` becomes one by exec. Here a fork is in the place of both. What `subprocess.Popen` gives is
real: a child of its own parent, with its streams, session, limits and end. As in an exec, signals that were handled
have their default again and blocked ones stay blocked, and open files are closed but for those that were passed on.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

OURS = ("ledger", "worker", "dashboard", "tests")
PYTHONS_OWN = ("PYTHONPATH", "PYTHONHOME", "PYTHONWARNINGS", "PYTHONDEVMODE")
AS_WE_ARE = (-1, None, None, None, -1)  # neither another group of processes, nor another user, nor a umask
Live = Any  # of tests.starts.child, which imports us
Words = Sequence[str | bytes | os.PathLike[str]]


def install(live: Live) -> None:
    """For this process. `live` goes on as another program, in streams that are put in place already."""
    as_ever, execve = subprocess._fork_exec, os.execve  # type: ignore[attr-defined]

    def fork_exec(words: Words, *rest: Any) -> int:
        env = dict(os.environ) if rest[4] is None else _environment(rest[4])
        if rest[15:20] == AS_WE_ARE and _can(words, env):
            return _forked(live, words, env, *rest)
        return int(as_ever(words, *rest))

    def become(path: str, words: Words, env: Mapping[str, str]) -> NoReturn:
        if _can(words, env):
            _reset_signals()
            _close_all_but(_passed_on())
            live(_request(words, env, Path.cwd()))
        execve(path, words, env)

    subprocess._fork_exec = fork_exec  # type: ignore[attr-defined]
    os.execve = become  # type: ignore[assignment]
    os.execv = lambda path, words: become(path, words, os.environ)  # type: ignore[assignment]


def _can(words: Words, env: Mapping[str, str]) -> bool:
    """A module of ours, by this Python, in an environment that is the same to Python; a fork would lose threads."""
    command = [os.fsdecode(word) for word in words]
    module = command[command.index("-m") + 1] if "-m" in command[1:3] else ""
    same = all(env.get(name) == os.environ.get(name) for name in PYTHONS_OWN)
    ours = command[0] == sys.executable and module.split(".")[0] in OURS
    return ours and same and threading.active_count() == 1


def _forked(live: Live, words: Words, env: Mapping[str, str], *given: Any) -> int:
    """The parameters are those of CPython's `_posixsubprocess.fork_exec`, without the first."""
    _, _, keep, folder, _, *streams, _, told, _, own_session = given[:15]
    before_exec = given[20]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # else what it holds is written twice
    with _signals_wait() as mask:
        if pid := os.fork():
            return pid
        gc.freeze()  # nothing of the parent's is tidied up here: its numbers of files mean others now
        if own_session:
            os.setsid()
        if before_exec:
            before_exec()
        _take_streams(*streams)
        _reset_signals()
        _close_all_but({*keep} - {told})  # which tells the parent that this is running
        subprocess._active.clear()  # type: ignore[attr-defined]
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        live(_request(words, env, folder or Path.cwd()))
    raise AssertionError("it lives until it ends")


@contextmanager
def _signals_wait() -> Iterator[set[signal.Signals]]:
    """So that none meets the parent's handler in the child."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield mask  # type: ignore[misc]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _take_streams(p2cread: int, _1: int, _2: int, c2pwrite: int, _3: int, errwrite: int) -> None:
    for number, stream in enumerate((p2cread, c2pwrite, errwrite)):
        if stream not in (-1, number):
            os.dup2(stream, number)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as Python does when it starts


def _passed_on() -> set[int]:
    """Open files that would survive an exec."""
    return {fd for fd in _open_files() if os.get_inheritable(fd)}


def _open_files() -> list[int]:
    listed = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - one open file fewer
    return [fd for fd in listed if Path(f"/proc/self/fd/{fd}").is_symlink()]  # but the listing's own


def _close_all_but(kept: set[int]) -> None:
    for fd in _open_files():
        if fd > 2 and fd not in kept:
            os.close(fd)


def _environment(listed: Sequence[bytes]) -> dict[str, str]:
    pairs = (os.fsdecode(pair).partition("=") for pair in listed)
    return {name: value for name, _, value in pairs}


def _request(words: Words, env: Mapping[str, str], folder: Path | str) -> dict[str, Any]:
    return {"command": [os.fsdecode(word) for word in words], "env": dict(env), "folder": os.fsdecode(folder)}
