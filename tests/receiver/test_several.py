"""Several receiver processes on one port: they share the work, outlive each other, and end together."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from ledger.embedded import Cluster
from tests import fix_receiver as fix
from tests import starts
from tests.fix_receiver import Receiver, Rows, Start, until

CONFIG = f"{fix.CONFIG}[supervisor]\nrestart_base_s = 0.05\n[receiver]\nprocesses = "
ALIVE = "SELECT pid FROM nottwice.workers WHERE kind = 'receiver' AND stopped_at IS NULL"


def event(key: object) -> bytes:
    return b'{"id":"%s","type":"t"}' % str(key).encode()


def post(receiver: Receiver, body: bytes, *secrets: str) -> int:
    """Over a connection of its own, so that any of them may take it; 0 when it was cut."""
    try:
        return fix.quick_post(receiver.port, "shop", body, fix.shop(body, *secrets))
    except OSError:
        return 0


def children(receiver: Receiver) -> set[int]:
    return {child.pid for child in psutil.Process(receiver.process.pid).children()}


def until_all_live(receiver: Receiver, rows: Rows, number: int) -> None:
    """So many run, each has said so in the database, and each has the port."""
    until(lambda: len(children(receiver)) == number and children(receiver) <= {pid for (pid,) in rows(ALIVE)})
    until(lambda: children(receiver) <= {note["pid"] for note in receiver.notes("listening")})


def test_inb_01_four_processes_share_one_port(receivers: Start, rows: Rows, tmp_path: Path) -> None:
    secret = tmp_path / "secrets" / "SHOP_OLD"
    secret.parent.mkdir()
    secret.write_text("rotating: first\n")
    receiver = receivers(f"{CONFIG}4\n", NOTTWICE_SECRET_SHOP_OLD="")
    until_all_live(receiver, rows, 4)
    _fifty_copies_beside_fifty_others(receiver, rows)
    _one_is_killed_and_replaced(receiver, rows)
    secret.write_text("rotating: second\n")
    receiver.process.send_signal(signal.SIGHUP)
    receiver.noted("configuration read", 4)
    assert {post(receiver, event(n), "rotating: second") for n in range(20)} == {202}
    assert {post(receiver, event(n), "rotating: first") for n in range(20)} == {401}
    ended = children(receiver)
    assert receiver.stop() == 0
    assert not any(psutil.pid_exists(pid) for pid in ended)
    assert len(receiver.notes("stopped")) == 4


def _fifty_copies_beside_fifty_others(receiver: Receiver, rows: Rows) -> None:
    barrier = threading.Barrier(50)

    def knock(number: int) -> list[int]:
        barrier.wait()
        return [post(receiver, event("same")), post(receiver, event(number))]

    with ThreadPoolExecutor(50) as pool:
        answers = pool.map(knock, range(50))
        assert {code for both in answers for code in both} == {202}
    assert rows("SELECT count(*) FROM nottwice.events") == [(51,)]
    assert rows("SELECT sum(deliveries)::int FROM nottwice.duplicates") == [(49,)]


def _one_is_killed_and_replaced(receiver: Receiver, rows: Rows) -> None:
    killed = min(children(receiver))
    os.kill(killed, signal.SIGKILL)
    until(lambda: killed not in children(receiver))
    assert "SIGKILL" in receiver.noted("receiver ended")[0]["text"]
    until_all_live(receiver, rows, 4)
    assert {post(receiver, event(n)) for n in range(20)} == {202}
    assert receiver.client.get("/readyz").status_code == 200


def test_inb_04_one_of_several_is_killed_with_a_delivery_in_hand(
    receivers: Start, rows: Rows, tmp_path: Path
) -> None:
    """Before its commit, and after it: no success answer, and the repeat is taken by another."""
    before, after = tmp_path / "before", tmp_path / "after"
    faults = f"receiver.before_commit=file:{before};receiver.after_commit=file:{after}"
    receiver = receivers(f"{CONFIG}2\n", NOTTWICE_FAULT=faults)
    until_all_live(receiver, rows, 2)
    with ThreadPoolExecutor(1) as pool:
        for stands, (point, file) in enumerate((("before_commit", before), ("after_commit", after))):
            answer = pool.submit(post, receiver, event("e"))
            held = f"receiver.{point}"
            until(lambda held=held: any(note["point"] == held for note in receiver.notes("fault")))
            os.kill(receiver.notes("fault")[-1]["pid"], signal.SIGKILL)
            assert answer.result() == 0
            assert rows("SELECT count(*) FROM nottwice.events") == [(stands,)]
            file.touch()
            until_all_live(receiver, rows, 2)
    assert post(receiver, event("e")) == 202
    assert rows("SELECT count(*) FROM nottwice.events") == [(1,)]
    assert rows("SELECT sum(deliveries)::int FROM nottwice.duplicates") == [(1,)]


def test_what_none_can_start_with_ends_all_with_code_2(
    receivers: Start, cluster: Cluster, unused_port: int
) -> None:
    receiver = receivers(f"{CONFIG}2\n")
    changed = {
        "NOTTWICE_RECEIVER_PORT": str(unused_port),
        "DATABASE_URL": cluster.url("nottwice_receiver", "postgres"),
    }
    command, env = [sys.executable, "-m", "ledger.receiver"], receiver.environment | changed
    done = starts.run(command, env=env, timeout=fix.WITHIN_S)
    assert done.returncode == 2 and "Run `nottwice migrate`" in done.stderr
    assert "cannot start" in done.stderr.splitlines()[-1]
