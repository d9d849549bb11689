"""A database with a past, for the tests that read query plans: filled once a module, and left as it is by each test.

Where a module reads its plans with fresh statistics and without, each time it reads them in a copy of what was filled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ledger.database import Database
from ledger.database.copied import SETTLED
from ledger.embedded import Cluster
from tests.databases import TEMPLATE, connected
from tests.fix_events import Ledger


@contextmanager
def database_with_a_past(cluster: Cluster, name: str) -> Iterator[Ledger]:
    """A migrated database of its own, dropped at the end."""
    with _made(cluster, f"{name}_{os.getpid()}", f"TEMPLATE {TEMPLATE}") as book:
        yield book


@contextmanager
def copy_of(cluster: Cluster, filled: Ledger, *analyzed: str) -> Iterator[Ledger]:
    """The same rows on the same pages, dropped at the end; `analyzed` are the tables with fresh statistics."""
    name = filled.database.engine.url.database
    filled.database.engine.dispose()  # nothing is copied while somebody is connected
    with _made(cluster, f"{name}_copy", f"TEMPLATE {name} STRATEGY FILE_COPY") as book:
        if analyzed:
            book.run(f"ANALYZE {', '.join(f'nottwice.{table}' for table in analyzed)}")
        yield book


@contextmanager
def _made(cluster: Cluster, name: str, like: str) -> Iterator[Ledger]:
    with connected(cluster, "postgres") as admin:
        admin.execute(f"CREATE DATABASE {name} {like}")
        database = Database(cluster.url(database=name))
        try:
            database.run(lambda tx: tx.execute(SETTLED))
            yield Ledger(database)
        finally:
            database.close()
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
