"""A database with a past, for the tests that read query plans: filled once a module, and left as it is by each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ledger.copied import SETTLED
from ledger.database import Database
from ledger.embedded import Cluster
from tests.databases import TEMPLATE, connected
from tests.fix_events import Ledger


@contextmanager
def database_with_a_past(cluster: Cluster, name: str, number: int) -> Iterator[Ledger]:
    """A migrated database of its own, dropped at the end. `number` tells the parameters of one module apart."""
    database_name = f"{name}_{os.getpid()}_{number}"
    with connected(cluster, "postgres") as admin:
        admin.execute(f"CREATE DATABASE {database_name} TEMPLATE {TEMPLATE}")
        database = Database(cluster.url(database=database_name))
        try:
            database.run(lambda tx: tx.execute(SETTLED) and None)
            yield Ledger(database)
        finally:
            database.close()
            admin.execute(f"DROP DATABASE {database_name} WITH (FORCE)")
