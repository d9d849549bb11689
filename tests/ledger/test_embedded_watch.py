"""The server under `nottwice up`: killed, it is started again and that is said; without its data, all ends."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ledger.embedded import Cluster
from ledger.embedded import watch as embedded_watch
from ledger.embedded.programs import first_number
from ledger.embedded.watch import Watch
from ledger.errors import Unavailable
from tests.fix_home import Home, until


@pytest.fixture
def cluster_of(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(embedded_watch, "LOOK_S", 0.0)
    cluster = Cluster(home.folder, settings={"fsync": "off"})
    cluster.ensure()
    yield cluster
    cluster.stop()


def killed(cluster: Cluster) -> None:
    os.kill(first_number(cluster.data / "postmaster.pid"), signal.SIGKILL)
    until(lambda: not cluster.lives, lambda: "its processes still live")


def test_a_killed_server_is_started_again_with_its_data_and_only_then_said(cluster_of: Cluster) -> None:
    said: list[str] = []
    watch = Watch(cluster_of, said.append)
    with psycopg.connect(host=str(cluster_of.socket), user="postgres", dbname="postgres") as connection:
        connection.execute("CREATE TABLE kept ()")
    watch.look()
    assert said == []
    killed(cluster_of)
    watch.look()
    assert [words.partition(" and ")[0].partition(", after")[0] for words in said] == [
        "PostgreSQL ended unexpectedly",
        "PostgreSQL answers again",
    ]
    with psycopg.connect(host=str(cluster_of.socket), user="postgres", dbname="postgres") as connection:
        assert connection.execute("SELECT to_regclass('kept') IS NOT NULL").fetchone() == (True,)


def test_a_server_whose_data_are_gone_is_not_made_anew(cluster_of: Cluster, tmp_path: Path) -> None:
    killed(cluster_of)
    shutil.move(cluster_of.data, tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="are gone. Nothing runs any more"):
        Watch(cluster_of, lambda words: None).look()
    assert not cluster_of.data.exists()
