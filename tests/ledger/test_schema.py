"""The schema is applied once, in order, by however many at once, on every PostgreSQL from 15 to 18."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from ledger import schema
from ledger.database import Database
from ledger.embedded import Cluster
from ledger.errors import Misconfigured, Unavailable, WrongSchema

OURS = [path.name for path in sorted(schema.sql_folder().glob("*.sql"))]
DEBIAN = Path("/usr/lib/postgresql/15/bin")
MIGRATE = "import sys; from ledger import schema; print(len(schema.migrate(sys.argv[1])))"


@pytest.fixture
def empty_url(cluster: Cluster) -> Iterator[str]:
    """A database without anything, as its owner."""
    with _empty(cluster, f"empty_{os.getpid()}") as url:
        yield url


def test_applies_every_file_once(empty_url: str) -> None:
    assert schema.migrate(empty_url) == OURS
    assert schema.migrate(empty_url) == []


def test_five_processes_at_once_apply_each_file_once(empty_url: str) -> None:
    started = [_migrate_elsewhere(empty_url) for _ in range(5)]
    assert sorted(_printed(process) for process in started) == [0, 0, 0, 0, len(OURS)] or sum(
        _printed(process) for process in started
    ) == len(OURS)


def test_two_databases_of_one_server_at_once(cluster: Cluster) -> None:
    """Roles are the server's: both set-ups change the same rows."""
    with _empty(cluster, f"one_{os.getpid()}") as one, _empty(cluster, f"two_{os.getpid()}") as two:
        started = [_migrate_elsewhere(url) for url in (one, two)]
        assert [_printed(process) for process in started] == [len(OURS)] * 2
