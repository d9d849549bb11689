"""What a child of the nest does from its fork to its end: what a new interpreter would, without the imports."""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from ledger import faults
from tests.starts import spawning


def live(request: Mapping[str, Any]) -> NoReturn:
    """In streams that are in place, with the open files that it was given."""
    code = 1
    try:
        become(request)
        code = run(*without_interpreter(request["command"]))
        threading._shutdown()  # type: ignore[attr-defined]  # waits for the threads that are no daemons
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def without_interpreter(command: list[str]) -> list[str]:
    """Nor its switch `-P`: `sys.path` is the nest's."""
    words = command[command[0] == sys.executable :]
    return words[words[0] == "-P" :]


def hatch(request: Mapping[str, Any], streams: list[int]) -> NoReturn:
    """Nothing of the nest's own goes on, and what it starts itself is forked as well."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(int(fd.name) for fd in Path("/proc/self/fd").iterdir()) + 1)
        spawning.install(live)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    live(request)


def become(request: Mapping[str, Any]) -> None:
    """Nothing of the forking process's surroundings is seen."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    faults._armed.clear()
    faults._armed.update(faults.parse(os.environ.get("NOTTWICE_FAULT", "")))


def run(*command: str) -> int:
    """The exit code of `-m MODULE …` or of a script."""
    try:
        if command[0] == "-m":
            sys.argv[1:] = command[2:]
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv[:] = command
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        return exit_code(end)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 0


def exit_code(end: SystemExit) -> int:
    if isinstance(end.code, str):
        sys.stderr.write(end.code + "\n")
        return 1
    return end.code or 0
