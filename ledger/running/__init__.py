"""`nottwice up` and `nottwice demo`: database, schema, processes; and at the end everything stops, PostgreSQL last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from ledger import schema
from ledger.embedded import Cluster
from ledger.embedded.watch import Watch
from ledger.errors import Misconfigured
from ledger.file_lock import held
from ledger.running import processes
from ledger.running.processes import Service
from ledger.running.rehearsal import refuse_mistakes
from ledger.running.supervisor import Supervisor
from ledger.settings import Login, Settings

Tell = Callable[[str], None]
Chore = Callable[[float], None]  # called with the seconds since everything was ready


def keep_running(
    settings: Settings,
    services: Sequence[Service],
    tell: Tell,
    on_ready: Callable[[], None],
    chore: Callable[[Supervisor, Settings, Tell], Chore] | None = None,
) -> None:
    """Until SIGINT or SIGTERM. Raises Misconfigured or Unavailable when it cannot start; nothing is left running.

    A mistake in the configuration is found before anything is written, too.
    """
    supervisor = Supervisor(services, settings.supervisor, settings.home / "log", tell)
    supervisor.listen()
    settings.refuse_missing_secrets()
    refuse_mistakes(services, within_s=settings.supervisor.ready_within_s)
    with _alone(settings.home):
        processes.refuse_busy_ports(services)
        with _database(settings):
            migrate(settings)
            processes.make_folders(services)
            look_after = chore and chore(supervisor, settings, tell)
            supervisor.run(on_ready, every=_chores(settings, tell, look_after))


def _chores(settings: Settings, tell: Tell, chore: Chore | None) -> Chore:
    """What is looked at all the time: that our own PostgreSQL lives, and what the caller wants."""
    watch = None if settings.database_url else Watch(Cluster(settings.home), tell)

    def every(since_s: float) -> None:
        if watch:
            watch.look()
        if chore:
            chore(since_s)

    return every


def migrate(settings: Settings) -> list[str]:
    """Applies the ledger's and the handlers' SQL files as the owner; returns the names applied now."""
    make_home(settings.home)
    applied = schema.migrate(settings.url("owner"), app_sql=settings.app_sql)
    if not settings.database.allow_unsafe:
        with closing(settings.open_database("owner", pool_size=1)) as database:
            schema.refuse_unsafe(database)
    return applied


def check_database(settings: Settings, login: Login) -> None:
    """Raises Unavailable or WrongSchema when a process that needs the database cannot start."""
    with closing(settings.open_database(login, pool_size=1)) as database:
        schema.check(database, app_sql=settings.app_sql)


def make_home(home: Path) -> None:
    """Raises Misconfigured when the folder cannot be made."""
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"NOTTWICE_HOME {home} cannot be made ({error.strerror}). Name a folder that you may write to."
        ) from error


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    make_home(home)
    with held(home / "up.lock", wait=False) as lock:
        if lock is None:
            raise Misconfigured(
                f"Not Twice runs in {home} already. Stop it first, or use another NOTTWICE_HOME."
            )
        yield


@contextmanager
def _database(settings: Settings) -> Iterator[None]:
    """The embedded server is stopped at the end; somebody else's database is left alone."""
    try:
        yield
    finally:
        if not settings.database_url:
            Cluster(settings.home).stop()
