"""One visit to the ledger from the command line: the database opened, closed again, and an embedded server put back
to sleep when only we woke it. What the server refuses is said in sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NoReturn

from sqlalchemy.exc import ProgrammingError

from ledger import schema
from ledger.database import Database, Transaction, sqlstate
from ledger.embedded import Cluster
from ledger.errors import Misconfigured, Unavailable, WrongSchema
from ledger.schema import MISSING
from ledger.settings import Login, Settings

NOT_ALLOWED = "42501"


@contextmanager
def visit(settings: Settings, login: Login = "console") -> Iterator[Database]:
    """The database that `settings` name, under the login they give.

    Raises Unavailable, or Misconfigured when there is no ledger or this login may not do what is done inside.
    """
    with _awake(settings), closing(settings.open_database(login, pool_size=1)) as database:
        try:
            schema.check(database, app_sql=settings.app_sql)
            yield database
        except ProgrammingError as error:
            _say(error)


def as_viewer(tx: Transaction) -> None:
    """Reads with a viewer's rights from here on, where this login may; a worker's login has rights of its own."""
    if tx.one("SELECT pg_has_role('nottwice_viewer', 'MEMBER')")[0]:
        tx.execute("SET LOCAL ROLE nottwice_viewer")


def _say(error: ProgrammingError) -> NoReturn:
    if sqlstate(error) in MISSING:
        raise WrongSchema(
            "There is no ledger in the database yet. Run `nottwice migrate` as its owner."
        ) from None
    if sqlstate(error) == NOT_ALLOWED:
        raise Misconfigured(
            "This DATABASE_URL's login may not read the ledger, or not do this. Use the console's or the owner's."
        ) from None
    raise error


@contextmanager
def _awake(settings: Settings) -> Iterator[None]:
    """Stops an embedded server that only we woke, unless somebody else came meanwhile."""
    cluster = None if settings.database_url else Cluster(settings.home)
    before = cluster.status if cluster else "running"
    if before == "absent":
        raise Unavailable(f"There is no ledger in {settings.home} yet. Start one with `nottwice up`.")
    try:
        yield
    finally:
        if cluster and before == "stopped" and not _others(settings):
            cluster.stop()


def _others(settings: Settings) -> int:
    with closing(settings.open_database("owner", pool_size=1)) as database, database.transaction() as tx:
        found = tx.one(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
    return int(found[0])
