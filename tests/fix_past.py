"""A database with a past, for the tests that read query plans: filled once a module, and left as it is by each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from ledger.database import Database
from ledger.embedded import Cluster
from ledger.schema import migrate
from tests.fix_events import Ledger


@contextmanager
def database_with_a_past(cluster: Cluster, name: str, number: int) -> Iterator[Ledger]:
    """A migrated database of its own, dropped at the end. `number` tells the parameters of one module apart."""
    database_name = f"{name}_{os.getpid()}_{number}"
    with psycopg.connect(
        host=str(cluster.socket), port=5432, user="postgres", dbname="postgres", autocommit=True
    ) as admin:
        admin.execute(f"CREATE DATABASE {database_name}".encode())
        url = cluster.url(database=database_name)
        migrate(url)
        database = Database(url)
        try:
            yield Ledger(database)
        finally:
            database.close()
            admin.execute(f"DROP DATABASE {database_name} WITH (FORCE)".encode())
