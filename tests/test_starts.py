"""What the nest forks is a process as one that was started by itself."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

from tests import starts

WITHIN_S = 40.0
LOOK = """
import atexit, os, sys, threading, time
print(os.environ, sys.argv, __name__, os.getcwd(), sorted(os.listdir("/proc/self/fd")))
atexit.register(print, "at the exit")
threading.Thread(target=lambda: (time.sleep(0.05), print("the thread"))).start()
"""
SPAWNS = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, print)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
kept, closed = os.pipe()
look = [sys.executable, "-P", "-m", "tests.starts.look"]
print("before", "uvicorn" in sys.modules)
child = subprocess.Popen([*look, "child"], env={**os.environ, "GIVEN": "a=b"}, cwd="/", pass_fds=[kept], text=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         start_new_session=True, preexec_fn=lambda: os.nice(3))
print(*child.communicate(), child.returncode)
print(subprocess.run([*look, "plain"], capture_output=True).returncode)
print(subprocess.run(["sh", "-c", "echo $0"], capture_output=True).stdout, flush=True)
os.set_inheritable(kept, True)
os.execve(sys.executable, [*look, "becomes"], {**os.environ, "GIVEN": "too"})
"""


def script(folder: Path, text: str) -> list[str]:
    file = folder / "script.py"
    file.write_text(text)
    return [str(file), "one", "two"]


def test_it_sees_what_it_was_given_and_nothing_else(tmp_path: Path) -> None:
    done = starts.run(script(tmp_path, LOOK), env={"ONLY": "this"}, timeout=WITHIN_S)
    seen, *rest = done.stdout.splitlines()
    listing = "3"  # of the folder that is being listed
    fds = ["0", "1", "2", listing]
    argv = [str(tmp_path / "script.py"), "one", "two"]
    assert seen == f"environ({{'ONLY': 'this'}}) {argv} __main__ {Path.cwd()} {fds}"
    assert (rest, done.stderr, done.returncode) == (["the thread", "at the exit"], "", 0)


def test_it_ends_as_a_program_of_python_does(tmp_path: Path) -> None:
    ends = {
        "raise SystemExit": (0, ""),
        "raise SystemExit(3)": (3, ""),
        "raise SystemExit('why')": (1, "why\n"),
        "raise KeyboardInterrupt": (-signal.SIGINT, ""),
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": (-signal.SIGKILL, ""),
    }
    for text, end in ends.items():
        done = starts.run(script(tmp_path, text), env={}, timeout=WITHIN_S)
        assert (done.returncode, done.stderr) == end, text
    failed = starts.run(script(tmp_path, "raise ValueError('so')"), env={}, timeout=WITHIN_S)
    assert failed.returncode == 1 and failed.stderr.endswith("\nValueError: so\n")


def test_it_is_signalled_frozen_and_killed_and_nobody_else_is(tmp_path: Path) -> None:
    process = starts.start(script(tmp_path, "import time; time.sleep(60)"), env={})
    assert process.poll() is None
    os.kill(process.pid, signal.SIGSTOP)
    process.terminate()
    assert process.poll() is None, "it is frozen"
    process.send_signal(signal.SIGCONT)
    assert process.wait(WITHIN_S) == process.poll() == -signal.SIGTERM
    process.kill()
    assert process.returncode == -signal.SIGTERM


def test_what_it_starts_and_becomes_is_as_with_interpreters_of_their_own(tmp_path: Path) -> None:
    said = []
    for anew in (False, True):
        with tempfile.TemporaryFile("w+") as out:
            process = starts.start(
                script(tmp_path, SPAWNS) if not anew else [sys.executable, *script(tmp_path, SPAWNS)],
                env={"PATH": os.defpath},
                stdout=out.fileno(),
                stderr=out.fileno(),
                anew=anew,
            )
            assert process.wait(WITHIN_S) == 3
            out.seek(0)
            said.append(out.read().splitlines())
    assert [lines.pop(0) for lines in said] == ["before True", "before False"], "the first is forked"
    assert said[0] == said[1]
    assert "'GIVEN', 'a=b'" in said[0][0] and "'GIVEN', 'too'" in said[0][-2], said


def test_what_python_itself_reads_takes_an_interpreter(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.exit = None")
    path = {"PYTHONPATH": str(tmp_path)}
    done = starts.start([sys.executable, "-c", "import sys; assert sys.exit is None"], env=path)
    assert done.wait(WITHIN_S) == 0
