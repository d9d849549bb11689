"""The schema is applied once, in order, by however many at once, on every PostgreSQL from 15 to 18."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TextIO

import psycopg
import pytest
import sqlalchemy as sa

from ledger import schema
from ledger.database import Database
from ledger.embedded import Cluster
from ledger.errors import Misconfigured, Unavailable, WrongSchema
from ledger.records import Role
from tests import starts

OURS = [path.name for path in sorted(schema.sql_folder().glob("*.sql"))]
DEBIAN = Path("/usr/lib/postgresql/15/bin")
MIGRATE = "import sys; from ledger import schema; print(len(schema.migrate(sys.argv[1])))"
_numbers = count(1)


@pytest.fixture
def empty_url(cluster: Cluster) -> Iterator[str]:
    """A database without anything, as its owner."""
    with _empty(cluster.url()) as url:
        yield url


@pytest.fixture
def app_sql(tmp_path: Path) -> Path:
    """A handler's own folder with one table, and the characters that a driver likes to interpret."""
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "0001_notes.sql").write_text(
        "CREATE TABLE notes (note text CHECK (note LIKE '%s:name%'));\nINSERT INTO notes VALUES ('a %s:name');"
    )
    return folder


def test_applies_every_file_once(empty_url: str) -> None:
    assert schema.migrate(empty_url) == OURS
    assert schema.migrate(empty_url) == []


def test_five_processes_at_once_apply_each_file_once(empty_url: str, tmp_path: Path) -> None:
    assert sum(_migrated_elsewhere(tmp_path, *[empty_url] * 5)) == len(OURS)
    _check(empty_url)


def test_three_databases_of_one_server_at_once(cluster: Cluster, tmp_path: Path) -> None:
    """Roles are the server's: all set-ups change the same rows of its catalogs."""
    with _empty(cluster.url()) as one, _empty(cluster.url()) as two, _empty(cluster.url()) as three:
        assert _migrated_elsewhere(tmp_path, one, two, three) == [len(OURS)] * 3


def test_an_edited_file_is_refused_by_name(empty_url: str, app_sql: Path) -> None:
    schema.migrate(empty_url, app_sql=app_sql)
    (app_sql / "0001_notes.sql").write_text("CREATE TABLE notes (note int);")
    with pytest.raises(WrongSchema, match=r"app/0001_notes\.sql was edited"):
        schema.migrate(empty_url, app_sql=app_sql)


def test_the_handlers_tables_belong_to_the_worker_too(empty_url: str, app_sql: Path) -> None:
    assert schema.migrate(empty_url, app_sql=app_sql)[-1] == "app/0001_notes.sql"
    assert _as("nottwice_worker", empty_url, "UPDATE notes SET note = note RETURNING note") == "a %s:name"
    with pytest.raises(sa.exc.ProgrammingError, match="permission denied"):
        _as("nottwice_receiver", empty_url, "SELECT note FROM notes")


def test_a_file_that_fails_leaves_nothing_of_itself(empty_url: str, app_sql: Path) -> None:
    (app_sql / "0002_broken.sql").write_text("CREATE TABLE half (n int);\nSELECT 1/0;")
    with pytest.raises(Misconfigured, match=r"app/0002_broken\.sql .* division by zero"):
        schema.migrate(empty_url, app_sql=app_sql)
    assert _as(
        "postgres", empty_url, "SELECT to_regclass('half') IS NULL AND to_regclass('notes') IS NOT NULL"
    )
    (app_sql / "0002_broken.sql").write_text("CREATE TABLE half (n int);")
    assert schema.migrate(empty_url, app_sql=app_sql) == ["app/0002_broken.sql"]


def test_a_duplicate_in_a_users_file_is_an_error_at_once(empty_url: str, app_sql: Path) -> None:
    """Only catalogs have races; a unique violation elsewhere would be tried forty times for nothing."""
    (app_sql / "0002_twice.sql").write_text(
        "CREATE TABLE one (n int PRIMARY KEY); INSERT INTO one VALUES (1), (1);"
    )
    with pytest.raises(Misconfigured, match="duplicate key"):
        schema.migrate(empty_url, app_sql=app_sql)


@pytest.mark.parametrize("login", ["nottwice_receiver", "nottwice_worker", "nottwice_console"])
def test_every_login_may_check(database_url: str, login: str) -> None:
    _check(_of(database_url, login))


def test_a_database_without_a_schema_says_what_to_do(empty_url: str) -> None:
    with pytest.raises(WrongSchema, match=r"lacks 0001_roles\.sql\. Run `nottwice migrate`"):
        _check(empty_url)


def test_a_newer_database_is_refused(database_url: str) -> None:
    _as(
        "postgres",
        database_url,
        "INSERT INTO nottwice.schema_files VALUES ('9999_later.sql', '') RETURNING name",
    )
    with pytest.raises(WrongSchema, match=r"9999_later\.sql, which this version does not know"):
        _check(database_url)


def test_a_misnamed_file_is_refused(empty_url: str, app_sql: Path) -> None:
    (app_sql / "notes.sql").write_text("SELECT 1")
    with pytest.raises(Misconfigured, match="is not named like 0001_what_it_does"):
        schema.migrate(empty_url, app_sql=app_sql)


def test_an_unreachable_server_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot be reached: .*\. Start it, or correct DATABASE_URL\.$"):
        schema.migrate(f"postgresql://nobody@/none?host={tmp_path}")


def test_a_server_that_forgets_commits_is_refused(database: Database) -> None:
    """The tests' own server runs with fsync=off."""
    with pytest.raises(Misconfigured, match="fsync=off"):
        schema.refuse_unsafe(database)


def test_an_owner_that_is_no_superuser_can_do_everything() -> None:
    """A managed server gives nobody a superuser. A server of our own, because the roles must not exist before."""
    home = _reachable_folder()
    server = Cluster(home)
    server.ensure()
    try:
        _migrate_as_mere_owner(server.url(database="postgres"))
    finally:
        server.stop()
        shutil.rmtree(home)


@pytest.mark.skipif(not (DEBIAN / "initdb").exists(), reason=f"no PostgreSQL 15 in {DEBIAN}")
def test_the_oldest_server_takes_it() -> None:
    with _old_server() as url:
        _migrate_as_mere_owner(url)
        with _empty(url) as another:
            assert schema.migrate(another) == OURS
            _check(_of(another, "nottwice_worker"))


def _check(url: str | sa.URL) -> None:
    database = Database(url)
    try:
        schema.check(database)
    finally:
        database.close()


def _as(login: str, url: str, statement: str) -> object:
    database = Database(_of(url, login))
    try:
        with database.transaction() as tx:
            return tx.connection.exec_driver_sql(statement.replace("%", "%%")).scalar()
    finally:
        database.close()


def _of(url: str, login: str) -> str:
    return sa.make_url(url).set(username=login).render_as_string(hide_password=False)


def _step_into_every_role(url: str | sa.URL) -> None:
    database = Database(url)
    try:
        for role in Role:
            with database.transaction(role) as tx:
                assert tx.one("SELECT current_user")[0] == f"nottwice_{role.value}"
                tx.all("SELECT id FROM nottwice.actions")
    finally:
        database.close()


def _migrated_elsewhere(folder: Path, *urls: str) -> list[int]:
    """How many files each of so many processes at once applied."""
    script = folder / "migrate.py"
    script.write_text(MIGRATE)
    with ExitStack() as together:
        begun = [together.enter_context(starts.telling([script, url], env=os.environ)) for url in urls]
        return [_printed(*one) for one in begun]


def _printed(process: starts.Running, told: TextIO) -> int:
    said = told.read()
    assert process.wait(60) == 0, said
    return int(said)


@contextmanager
def _empty(url: str) -> Iterator[str]:
    name = f"empty_{os.getpid()}_{next(_numbers)}"
    with _admin(url) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield sa.make_url(url).set(database=name).render_as_string(hide_password=False)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _migrate_as_mere_owner(url: str) -> None:
    with _admin(url) as admin:
        admin.execute("CREATE ROLE mere LOGIN CREATEROLE")
        admin.execute("CREATE DATABASE theirs OWNER mere")
    owner = sa.make_url(url).set(username="mere", database="theirs").render_as_string(hide_password=False)
    assert schema.migrate(owner) == OURS
    _step_into_every_role(owner)


@contextmanager
def _old_server() -> Iterator[str]:
    """Debian's PostgreSQL 15 under a user of its own: it refuses root."""
    folder = _reachable_folder()
    as_user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid} if os.geteuid() == 0 else {}
    if as_user:
        shutil.chown(folder, "nobody")
    run = {"cwd": folder, "check": True, "stdout": subprocess.DEVNULL, **as_user}
    data, options = (
        folder / "data",
        f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off",
    )
    subprocess.run([DEBIAN / "initdb", "--username=postgres", "--auth=trust", "-D", data], **run)
    subprocess.run([DEBIAN / "pg_ctl", "start", "-w", "-D", data, "-l", folder / "log", "-o", options], **run)
    try:
        yield f"postgresql+psycopg://postgres@/postgres?host={folder}&port=5432"
    finally:
        subprocess.run([DEBIAN / "pg_ctl", "stop", "-m", "immediate", "-D", data], **run)
        shutil.rmtree(folder)


def _reachable_folder() -> Path:
    """A short path (sockets) that the server's user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="nottwice-", dir="/tmp"))
    folder.chmod(0o711)
    return folder


def _admin(url: str) -> psycopg.Connection:
    parts = sa.make_url(url)
    return psycopg.connect(
        host=str(parts.query["host"]), port=5432, user="postgres", dbname="postgres", autocommit=True
    )
