"""A real PgBouncer in transaction mode ahead of the run's server; tests skip where none is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ledger.embedded import Cluster

WITHIN_S = 40.0  # a deadline on a busy machine, not a duration
POOL = 3  # connections to the server for each login: fewer than any process has to the pooler
# Each transaction meets the connection that has rested longest, so hardly one meets that of the one before. The login
# is the pooler's own (`auth_type = any`), by the name of the database that is asked for.
CONFIGURATION = """
[databases]
{databases}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool}
server_round_robin = 1
"""
DATABASE = "{login} = host={host} port={port} dbname={database} user={login}"
LOGINS = ("nottwice_receiver", "nottwice_worker", "nottwice_console")

Through = Callable[[str], str]


@pytest.fixture
def through_pgbouncer(cluster: Cluster, database_url: str, unused_port: int) -> Iterator[Through]:
    """`through_pgbouncer(LOGIN)`: this test's database by a login, on the way through the pooler."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip(
            "no PgBouncer on this machine (Debian: apt-get install pgbouncer); .ci/run installs it where it may"
        )
    server = sa.make_url(database_url)
    file = _written(cluster, server, unused_port)
    owner = cluster.socket.stat()  # root is refused, and nobody else reaches the server's socket
    as_owner = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    with file.with_suffix(".log").open("w") as log:
        pooler = subprocess.Popen([program, file], stdout=log, stderr=log, **as_owner)  # type: ignore[call-overload]
    try:
        _until_it_listens(pooler, unused_port, file.with_suffix(".log"))
        yield f"postgresql+psycopg://app@127.0.0.1:{unused_port}/{{}}".format
    finally:
        pooler.kill()
        pooler.wait()


def _written(cluster: Cluster, server: sa.URL, port: int) -> Path:
    lines = (
        DATABASE.format(
            login=login, host=server.query["host"], port=server.query["port"], database=server.database
        )
        for login in LOGINS
    )
    file = cluster.home / f"pgbouncer-{port}.ini"
    file.write_text(CONFIGURATION.format(databases="\n".join(lines), port=port, pool=POOL))
    file.chmod(0o644)
    return file


def _until_it_listens(pooler: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends_at = time.monotonic() + WITHIN_S
    while time.monotonic() < ends_at and pooler.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.01)
        else:
            return
    pytest.fail(f"PgBouncer did not listen: {log.read_text()}")
