"""Whether the ledger is where this worker knew it: looked at before anything is sent, and again now and then.

What is remembered stands beside the database, in the home: a backup that is put back in its place does not know it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from uuid import UUID

from ledger.accounts import restored
from ledger.accounts.restored import Mark
from ledger.database import Database
from ledger.settings import Settings
from worker.maintenance import Duty
from worker.observer import note

EVERY_S = 30.0
FILE = "ledger-mark.json"


class StandingWatch:
    """Its duty, for `Maintenance` to do when it is due: at once after a start."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._file = database, settings.home / FILE
        self._embedded = None if settings.database_url else settings.home
        self._noted = _read(self._file)
        self.duty = Duty("standing", EVERY_S, self.look)

    def look(self) -> None:
        """Hold the ledger when it is not what it was; else remember how far it has come."""
        folder = _files_of(self._embedded) if self._embedded else None
        found = self._database.run(lambda tx: restored.look(tx, folder, self._noted))
        if found.why:
            if found.is_new:
                note("sending is held", why=found.why)
            return
        if found.mark != self._noted:
            self._noted = found.mark
            _write(self._file, found.mark)


def _files_of(home: Path) -> str:
    """A copy has other inodes; the same files have the same, wherever their folder was moved to."""
    from ledger.embedded import Cluster  # psutil and the binaries are for those who have no server

    data = Cluster(home).data
    return " ".join(str(file.stat().st_ino) for file in (data, data / "PG_VERSION", data / "global"))


def _read(file: Path) -> Mark | None:
    """None as well for what cannot be read: then nothing is known, and nothing is held for it."""
    try:
        told = json.loads(file.read_text("utf-8"))
        return Mark(UUID(told["installation"]), int(told["releases"]), int(told["last_try"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, mark: Mark) -> None:
    anew = file.with_suffix(".new")
    try:
        anew.write_text(json.dumps(asdict(mark), default=str), "utf-8")
        anew.replace(file)
    except OSError as error:
        note("mark not kept", error=type(error).__name__)
