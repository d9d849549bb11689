"""`nottwice catch-up` stopped before it has anything to report: the same sentence and code as later, no traceback."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TextIO

import pytest

from tests import starts
from tests.fix_home import HANGS_S
from tests.fix_receiver import CONFIG, SECRETS

SAID = "Stopped. What was stored is stored; the same command goes on from there."


def started(home: Path, **environment: str) -> AbstractContextManager[tuple[starts.Running, TextIO]]:
    file = home / "events.jsonl"
    file.write_text("{}\n")
    command = [sys.executable, "-m", "ledger.cli", "catch-up", "shop", "--file", file, "--go"]
    return starts.telling(command, env={**os.environ, **SECRETS, "NOTTWICE_HOME": str(home), **environment})


def while_it_reads_its_configuration(home: Path) -> tuple[int, str]:
    """Which is a pipe that says nothing: whoever opened it waits."""
    pipe = home / "pipe.toml"
    os.mkfifo(pipe)
    with started(home, NOTTWICE_CONFIG=str(pipe)) as (process, told), pipe.open("w"):
        process.send_signal(signal.SIGTERM)
        said = told.read()
        return process.wait(HANGS_S), said


def while_its_database_says_nothing(home: Path) -> tuple[int, str]:
    (home / "nottwice.toml").write_text(CONFIG)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = (
            f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/none?sslmode=disable&gssencmode=disable"
        )
        with started(home, DATABASE_URL=url) as (process, told):
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            connection.close()
            silent.close()
            said = told.read()
            return process.wait(HANGS_S), said


@pytest.mark.parametrize("stopped", [while_it_reads_its_configuration, while_its_database_says_nothing])
def test_a_stop_before_the_first_line_is_said(
    tmp_path: Path, stopped: Callable[[Path], tuple[int, str]]
) -> None:
    code, said = stopped(tmp_path)
    assert code == 1 and said.splitlines()[-1] == SAID and "Traceback" not in said, said
