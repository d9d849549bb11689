"""One real PostgreSQL for the whole run, a database of its own for each test.

`database_url` is an owner's URL, `login_url("nottwice_worker")` that of another login on the same database, and
`database` the ledger's door to it. More fixtures live in `tests/fix_*.py`, one file a subject.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from _pytest.nodeid import coerce_node_id
from hypothesis import HealthCheck, settings

from ledger import schema
from ledger.database import Database
from ledger.embedded import Cluster
from ledger.events import recovery
from ledger.file_lock import held
from tests import starts
from tests.databases import TEMPLATE, Databases, as_login, connected

pytest_plugins = [f"tests.{file.stem}" for file in sorted(Path(__file__).parent.glob("fix_*.py"))]

RUN_HOME = "TESTS_RUN_HOME"  # handed by the controller to its xdist workers
# A crash of the machine may cost a test run its data, but not the minutes.
# Nor does anything happen in a test's database but what the test does: no statistics of a chance moment.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
# Room for the sessions that the lenders of all processes keep, while crowds of fifty race.
FAST["max_connections"] = "400"
# The same examples in every run, and no judgement about time: a busy machine is no fault of the code.
settings.register_profile(
    "here", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
LATE_S = 3600.0  # leases that a test let run out are no fault of the code


def pytest_configure(config: pytest.Config) -> None:
    """Nothing of the caller's installation reaches a test; the run gets a home that any user can reach."""
    settings.load_profile("here")
    if hasattr(config, "workerinput"):
        return
    for name in [n for n in os.environ if n.startswith("NOTTWICE_") or n in ("DATABASE_URL", RUN_HOME)]:
        del os.environ[name]
    os.environ[RUN_HOME] = tempfile.mkdtemp(prefix="nottwice-tests-", dir="/tmp")
    Path(os.environ[RUN_HOME]).chmod(0o711)


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """One more than there are cores: a test with processes also waits, for a lease, a poll or a page."""
    asked = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS")
    return None if asked else len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing of what is imported and collected is garbage: looking for some, then and in the whole run, is 0.3 s each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What drives a Chromium stays in one process of the run: one browser, one console, one cache of its code."""
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.xdist_group("browser"))
        if hasattr(config, "workerinput"):
            grouped(item)


def grouped(item: pytest.Item) -> None:
    """Names its group where xdist's controller looks for it: behind the id. Since pytest 9.2 the id is not what
    xdist 3.8 writes to, and each test of a group went to any process."""
    for mark in item.iter_markers("xdist_group"):
        item._id = coerce_node_id(f"{item.nodeid}@{mark.args[0]}")


def pytest_sessionfinish() -> None:
    starts.close()


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or RUN_HOME not in os.environ:
        return
    home = Path(os.environ.pop(RUN_HOME))
    Cluster(home).stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The run's server, started by the first test that asks, with a migrated template database."""
    server = Cluster(os.environ[RUN_HOME], settings=FAST)
    server.ensure()
    with held(server.home / "template.lock"), connected(server, "postgres") as admin:
        found = admin.execute("SELECT FROM pg_database WHERE datname = %s", [TEMPLATE]).rowcount
        if not found:
            admin.execute("CREATE DATABASE template_new")
            schema.migrate(server.url(database="template_new"))
            admin.execute(f"ALTER DATABASE template_new RENAME TO {TEMPLATE}")
    return server


@pytest.fixture(scope="session")
def databases(cluster: Cluster) -> Iterator[Databases]:
    """Migrated, empty databases to borrow."""
    lender = Databases(cluster)
    yield lender
    lender.close()


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """A migrated, empty database for this test alone, as its owner."""
    with databases.lent() as url:
        yield url


@pytest.fixture
def login_url(database_url: str) -> Callable[[str], str]:
    """The same database's URL for another login, such as `nottwice_worker`."""
    return partial(as_login, database_url)


@pytest.fixture
def opened_as(databases: Databases, database_url: str) -> Iterator[Callable[..., Database]]:
    """Doors to the same database by a login: `opened_as("nottwice_worker", pool_size=8)`. Closed after the test."""
    with ExitStack() as doors:
        yield lambda login, **more: doors.enter_context(databases.opened(database_url, login, **more))


@pytest.fixture
def database(databases: Databases, database_url: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """The ledger's door to this test's database, as its owner. What a test leaves behind keeps to invariant R5."""
    with databases.opened(database_url) as opened:
        yield opened
        if opened.engine.pool.checkedin() and not request.node.get_closest_marker("leaves_rows"):
            left = opened.run(lambda tx: recovery.invariant_violations(tx, late_s=LATE_S))
            assert left == [], "R5: nobody would come back to these rows"
