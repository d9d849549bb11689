"""PostgreSQL's own programs, run as the server's user, and what they say in one sentence."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ledger.embedded.place import Runner
from ledger.errors import Misconfigured, Unavailable

START_LOG = "start.log"
LOOK_BACK = 4000  # characters of the start's log that may tell why it failed
TELLING = re.compile(r"(?:FATAL|PANIC|ERROR|error): +(.+)")
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class Programs:
    """What initdb and pg_ctl are run with: as whom, in which folder, on which data, for how long."""

    runner: Runner
    folder: Path
    data: Path
    timeout_s: float

    def run(self, program: str, *arguments: str, inherit: tuple[int, ...] = ()) -> None:
        """Raises Unavailable with the program's own reason."""
        uid, gid = self.runner.owner or (None, None)
        # A file, not a pipe: the server inherits it, and a pipe would never end.
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            done = subprocess.run(
                [self.runner.programs / program, *arguments],
                user=uid,
                group=gid,
                extra_groups=[] if uid is not None else None,
                cwd=self.folder,
                env=self._environment(),
                umask=0o077,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=inherit,
                check=False,
            )
            if done.returncode:
                output.seek(0)
                raise Unavailable(self._failure(program, output.read()))

    def major_version(self) -> int:
        """Of the programs themselves."""
        command = [str(self.runner.programs / "postgres"), "--version"]
        said = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout
        return int(re.findall(r"\d+", said)[0])

    def _environment(self) -> dict[str, str]:
        """By environment and relative paths, because pg_ctl hands its arguments to a shell between bare quotes."""
        ours = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
        return ours | {"PGDATA": str(self.data), "PGCTLTIMEOUT": str(max(1, round(self.timeout_s)))}

    def _failure(self, program: str, output: str) -> str:
        log = self.folder / START_LOG
        said = output if program == "initdb" or not log.exists() else output + _end_of(log)
        # The first is the cause; what comes after it are its consequences.
        reasons = TELLING.findall(said) or [" ".join(output.split()) or "it does not say why"]
        where = f" Its log is {log}." if log.exists() else ""
        return f"PostgreSQL's {program} failed in {self.folder}: {reasons[0].strip()}.{where}"


@contextmanager
def in_words(home: Path) -> Iterator[None]:
    """What the file system does not allow. Raises Unavailable for a full one, Misconfigured for the rest."""
    try:
        yield
    except OSError as error:
        what = f"{error.filename or home}: {error.strerror or type(error).__name__}"
        if error.errno in FULL:
            raise Unavailable(
                f"The embedded PostgreSQL cannot start; {what}. Make room, then try again."
            ) from error
        raise Misconfigured(
            f"The embedded PostgreSQL cannot live in {home}; {what}. "
            "Let NOTTWICE_HOME be a folder that you may write to, or set DATABASE_URL."
        ) from error


def first_number(file: Path) -> int:
    """The pid in a pid file; -1, which is no process, when there is none (missing, empty, half written)."""
    try:
        return int(file.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return -1


def sync(folder: Path) -> None:
    """Makes a rename inside the folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _end_of(log: Path) -> str:
    try:
        return log.read_text(errors="replace")[-LOOK_BACK:]
    except OSError:
        return ""
