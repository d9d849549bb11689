"""Who comes in as what, by the file as it is now: a role that was given or taken away needs no restart.

Read again when the file is another than before. A file that cannot be read keeps the roles that were read, and the log
says so once; whether sign-in is set up right, `nottwice check` and the Health page say of the file as it is.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from ledger.errors import Misconfigured
from ledger.settings import RolesSettings, Settings, load

LOG = logging.getLogger("nottwice.console")
Stamp = tuple[int, int, int]


class RolesNow:
    """Shared by all sessions of one console. Begins with what the console was started with."""

    def __init__(self, started: Settings) -> None:
        self._file, self._roles = started.config, started.console.roles
        self._stamp, self._lock = _stamp(started.config), threading.Lock()

    def now(self) -> RolesSettings:
        """The roles of the newest file that could be read. One look at the file's times; never raises."""
        with self._lock:
            stamp = _stamp(self._file)
            if stamp is not None and stamp != self._stamp:
                self._stamp = stamp
                self._read_again()
            return self._roles

    def _read_again(self) -> None:
        try:
            self._roles = load(self._file).console.roles
        except Misconfigured as error:
            LOG.warning("configuration kept: %s", error)
        else:
            LOG.info("roles read again")


def _stamp(file: Path | None) -> Stamp | None:
    """What changes when a file is written or replaced; None where there is none."""
    try:
        found = file.stat() if file else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if found else None
