"""A NOTTWICE_HOME of its own, and the command line in it: the fixture `home`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ledger.embedded import Cluster
from tests import starts

NOTTWICE = Path(sys.executable).with_name("nottwice")
NOBODY_LISTENS = "postgresql://nobody@127.0.0.1:1/none"
WITHIN_S = 14.0  # what is promised of a stop
HANGS_S = 45.0  # what takes so long hangs, however busy the machine is
SHOP = '[sources.shop]\nkind = "agentmail"\nsecrets = ["hook"]\n'
SECRET = {"NOTTWICE_SECRET_HOOK": "whsec_c2l4dGVlbiBieXRlcyBvciBtb3JlLCBhcyBzdml4IGhhcw=="}
UNSAFE = "[database]\nallow_unsafe = true\n"  # the tests' own server runs with fsync=off


class Home:
    """A NOTTWICE_HOME with ports of its own, and the commands that run in it."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self.folder = folder
        self.receiver, self.console, self.sandbox = ports
        self.started: list[starts.Running] = []

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        ports = {"RECEIVER": self.receiver, "CONSOLE": self.console, "SANDBOX": self.sandbox}
        ours = {f"NOTTWICE_{name}_PORT": str(port) for name, port in ports.items()}
        return {**os.environ, "NOTTWICE_HOME": str(self.folder), "COLUMNS": "100", **ours, **more}

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return starts.run([NOTTWICE, *arguments], env=self.environment(more), timeout=HANGS_S)

    def start(self, *arguments: str, anew: bool = False, **more: str) -> starts.Running:
        """`anew`: it and all that it starts, each by an interpreter of its own, as a person's are."""
        with self.said.open("w") as said:
            out = said.fileno()
            env = self.environment(more)
            process = starts.start([NOTTWICE, *arguments], env=env, stdout=out, stderr=out, anew=anew)
        self.started.append(process)
        return process

    @property
    def said(self) -> Path:
        return self.folder / "said"

    def configure(self, text: str) -> None:
        (self.folder / "nottwice.toml").write_text(text)

    def get(self, port: int, path: str, body: bytes | None = None) -> int:
        """The status, 0 while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", body, timeout=40) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def status(self) -> dict[str, Any]:
        done = self.run("status", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.terminate()
                process.wait(HANGS_S)
        Cluster(self.folder).stop()


@pytest.fixture
def home(unused_ports: Callable[[int], list[int]]) -> Iterator[Home]:
    folder = Path(tempfile.mkdtemp(prefix="nottwice-", dir="/tmp"))
    folder.chmod(0o711)  # started by root, the server's own user must be able to pass
    made = Home(folder, unused_ports(3))
    yield made
    made.end()
    shutil.rmtree(folder)


def until(true: Callable[[], object], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANGS_S
    while not true():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)
