"""The receiver as a process: how it starts, stops, dies and recovers."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from ledger.embedded import Cluster
from tests import fix_receiver as fix
from tests import starts
from tests.fix_receiver import Receiver, Rows, Start, until

EVENT = b'{"id":"e1","type":"paid"}'


def start_failing(environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and what it said."""
    done = starts.run([sys.executable, "-m", "ledger.receiver"], env=environment, timeout=fix.WITHIN_S)
    return done.returncode, done.stderr


def test_a_busy_port_is_one_sentence_and_exit_code_2(receiver: Receiver) -> None:
    code, said = start_failing(receiver.environment)
    assert code == 2
    assert said.splitlines() == [
        f"nottwice receive: Port {receiver.port} of 127.0.0.1 cannot be used (Address already in use). "
        "Stop what uses it, or choose another port with NOTTWICE_RECEIVER_PORT."
    ]


def test_settings_that_cannot_work_are_one_sentence_and_exit_code_2(
    receiver: Receiver, tmp_path: Path, unused_port: int
) -> None:
    environment = {**receiver.environment, "NOTTWICE_RECEIVER_PORT": str(unused_port)}
    missing = {name: value for name, value in environment.items() if name != "NOTTWICE_SECRET_SHOP"}
    code, said = start_failing(missing)
    assert code == 2 and said.startswith("nottwice receive: The secret SHOP is nowhere.")
    file = tmp_path / "wrong.toml"
    file.write_text(fix.CONFIG.replace('type_path = "type"', ""))
    code, said = start_failing({**environment, "NOTTWICE_CONFIG": str(file)})
    assert code == 2 and f"{file}, line 7: [sources.shop] type_path or type_header" in said


def test_a_database_without_the_schema_stops_it(
    receiver: Receiver, cluster: Cluster, unused_port: int
) -> None:
    code, said = start_failing(
        {
            **receiver.environment,
            "NOTTWICE_RECEIVER_PORT": str(unused_port),
            "DATABASE_URL": cluster.url("nottwice_receiver", "postgres"),
        }
    )
    assert code == 2 and "Run `nottwice migrate`" in said.splitlines()[-1]


def test_a_server_that_forgets_commits_is_refused(
    receiver: Receiver, tmp_path: Path, unused_port: int
) -> None:
    file = tmp_path / "safe.toml"
    file.write_text(fix.CONFIG.replace("allow_unsafe = true", ""))
    environment = {
        **receiver.environment,
        "NOTTWICE_CONFIG": str(file),
        "NOTTWICE_RECEIVER_PORT": str(unused_port),
    }
    code, said = start_failing(environment)
    assert code == 2 and "fsync=off" in said


def test_it_listens_on_loopback_only_unless_told(receiver: Receiver) -> None:
    hexport = f"{receiver.port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines() + Path("/proc/net/tcp6").read_text().splitlines()
    listening = [
        line.split()[1]
        for line in lines
        if line.split()[1].endswith(":" + hexport) and line.split()[3] == "0A"
    ]
    assert listening == [f"0100007F:{hexport}"]


def test_sigterm_answers_what_is_in_hand_and_exits_0(receivers: Start, rows: Rows) -> None:
    receiver = receivers(NOTTWICE_FAULT="receiver.before_commit=sleep:0.7")
    answers: list[int] = []
    post = threading.Thread(target=lambda: answers.append(receiver.shop(EVENT)))
    post.start()
    receiver.noted("fault")
    receiver.process.send_signal(signal.SIGTERM)
    post.join(fix.WITHIN_S)
    assert answers == [202]
    assert receiver.stop() == 0
    assert rows("SELECT count(*) FROM nottwice.events") == [(1,)]
    assert receiver.notes()[-1]["event"] == "stopped"


def test_sigterm_ends_it_in_time_although_a_transaction_hangs(receivers: Start, rows: Rows) -> None:
    limits = "[receiver]\nanswer_within_s = 0.3\ngrace_s = 0.5\n"
    receiver = receivers(fix.CONFIG + limits, NOTTWICE_FAULT="receiver.before_commit=sleep:300")
    assert receiver.shop(EVENT) == 503
    assert receiver.stop() == 0
    assert receiver.notes("stopped")[0]["hanging"] is True
    assert rows("SELECT count(*) FROM nottwice.events") == [(0,)]


QUICK = "\n[receiver]\nbeat_s = 0.1\n"
REFUSED_SINCE = "SELECT refused_at IS NOT NULL FROM nottwice.workers"


def test_sighup_reads_secrets_again_and_a_bad_file_changes_nothing(
    receivers: Start, tmp_path: Path, rows: Rows
) -> None:
    secret_file = tmp_path / "secrets" / "SHOP_OLD"
    secret_file.parent.mkdir()
    secret_file.write_text("rotating: first\n")
    receiver = receivers(fix.CONFIG + QUICK, NOTTWICE_SECRET_SHOP_OLD="")
    config = Path(receiver.environment["NOTTWICE_CONFIG"])
    accepted: list[int] = []
    stop = threading.Event()

    def traffic() -> None:
        number = 0
        while not stop.wait(0.01):
            number += 1
            accepted.append(receiver.shop(b'{"id":%d,"type":"t"}' % number))

    steady = threading.Thread(target=traffic)
    steady.start()
    assert receiver.post("shop", EVENT, fix.shop(EVENT, "rotating: second")).status_code == 401
    secret_file.write_text("rotating: second\n")
    config.write_text(fix.CONFIG + QUICK + "batch_max = 7\n")
    _hup(receiver, "configuration read")
    assert receiver.noted("configuration read")[-1]["after_restart"] == ["receiver.batch_max"]
    assert receiver.post("shop", EVENT, fix.shop(EVENT, "rotating: second")).status_code == 202
    assert receiver.post("shop", EVENT, fix.shop(EVENT, "rotating: first")).status_code == 401
    config.write_text(fix.CONFIG + "\n[sources.mail2]\nkind = 'agentmial'\n")
    _hup(receiver, "configuration kept")
    until(lambda: rows(REFUSED_SINCE) == [(True,)])
    assert receiver.post("shop", EVENT, fix.shop(EVENT, "rotating: second")).status_code == 202
    until(lambda: len(accepted) > 20)
    stop.set()
    steady.join()
    assert set(accepted) == {202}
    config.write_text(fix.CONFIG + QUICK)
    _hup(receiver, "configuration read")
    until(lambda: rows(REFUSED_SINCE) == [(False,)])


def _hup(receiver: Receiver, event: str) -> None:
    before = len(receiver.notes(event))
    receiver.process.send_signal(signal.SIGHUP)
    receiver.noted(event, before + 1)


# ── without a database ────────────────────────────────────────────────────────────────────────────────


def test_without_a_database_it_starts_answers_503_and_recovers(
    receivers: Start, own_cluster: Cluster
) -> None:
    url = own_cluster.url("nottwice_receiver")
    own_cluster.stop()
    receiver = receivers(ready=False, DATABASE_URL=url)
    refused = receiver.post("shop", EVENT, fix.shop(EVENT))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert receiver.post("shop", EVENT, {}).status_code == 401
    assert receiver.client.get("/readyz").status_code == 503
    own_cluster.ensure()
    receiver.until("/readyz", 200)
    assert receiver.shop(EVENT) == 202
    own_cluster.stop()
    receiver.until("/readyz", 503)
    assert receiver.shop(b'{"id":"e2","type":"paid"}') == 503
    assert receiver.client.get("/healthz").status_code == 200
    own_cluster.ensure()
    receiver.until("/readyz", 200)
    assert receiver.shop(b'{"id":"e2","type":"paid"}') == 202
    assert receiver.stop() == 0


def test_a_commit_that_did_not_reach_the_standby_is_not_acknowledged(
    receivers: Start, own_cluster: Cluster
) -> None:
    """Somebody breaks off the wait for a synchronous standby: the commit "succeeds" with no more than a warning."""
    receiver = receivers(
        fix.CONFIG + "[receiver]\nanswer_within_s = 2.0\n", DATABASE_URL=own_cluster.url("nottwice_receiver")
    )
    with _admin(own_cluster) as admin:
        until(lambda: receiver.shop(EVENT) == 202)
        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        admin.execute("SELECT pg_reload_conf()")
        answers: list[int] = []
        post = threading.Thread(target=lambda: answers.append(receiver.shop(EVENT)))
        post.start()
        cancelled = 0
        while post.is_alive():
            cancelled += admin.execute(
                "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            ).fetchone()[0]
            time.sleep(0.02)
        assert cancelled > 0 and answers == [503]
        admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
        admin.execute("SELECT pg_reload_conf()")
    receiver.until("/readyz", 200)
    until(lambda: receiver.shop(EVENT) == 202)


def _admin(server: Cluster) -> psycopg.Connection[Any]:
    url = sa.make_url(server.url())
    return psycopg.connect(
        host=str(url.query["host"]), port=5432, user="postgres", dbname=url.database, autocommit=True
    )


def test_several_receivers_share_one_port(receivers: Start, unused_port: int, rows: Rows) -> None:
    config = fix.CONFIG + "[receiver]\nreuse_port = true\n"
    both = [receivers(config, port=unused_port), receivers(config, port=unused_port)]
    for receiver in both:
        receiver.noted("listening")  # one alone answers /readyz for both
    for number in range(60):
        with socket.create_connection(("127.0.0.1", unused_port), timeout=40) as line:
            body = json.dumps({"id": number, "type": "t"}).encode()
            fields = "".join(f"{name}: {value}\r\n" for name, value in fix.shop(body).items())
            line.sendall(
                f"POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{fields}\r\n".encode()
                + body
            )
            assert line.recv(4096).split()[1] == b"202"
    assert all(receiver.noted("stored") for receiver in both)
    assert rows("SELECT count(*) FROM nottwice.events") == [(60,)]
