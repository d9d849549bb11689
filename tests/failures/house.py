"""A whole house of real processes for one test: sandbox provider, receivers, workers, at about 1/20 of the real times.

Each process can be given faults (`NOTTWICE_FAULT`), killed, stopped and continued. Nothing here sleeps for luck:
`until()` looks for a condition until a deadline.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from ledger import schema
from ledger.database import Database
from ledger.events import recovery
from ledger.settings import Settings, load
from ledger.simulated import simulate
from tests import leases, starts
from tests.ports import free_ports
from tests.starts import Running

T = TypeVar("T")
HANDLERS = Path(__file__).with_name("house_handlers.py")
LEASE_S, SWEEP_S = 10.0, 1.0  # no busy machine loses a lease; those of the dead run out by hand
WITHIN_S = 40.0  # a deadline on a busy machine, not a duration
ANSWERED_S = 20.0  # answers come at once: nobody waits so long for one

CONFIG = f"""
[sources.shop]
kind = "generic"
namespace = "acme"
secrets = ["shop-webhook"]
signature_header = "X-Shop-Signature"
delivery_header = "X-Shop-Delivery"
key_path = "id"
type_path = "type"

[providers.agentmail]
kind = "agentmail"
base_url = "http://127.0.0.1:{{sandbox_port}}"
key = "agentmail-api"
window_s = 86400
timeout_s = {ANSWERED_S}

[providers.inboxili]
kind = "inboxili"
base_url = "http://127.0.0.1:{{sandbox_port}}/api/v1"
key = "inboxili-api"
timeout_s = {ANSWERED_S}

[actions.answer]
provider = "agentmail"
evidence_s = 0

[actions.receipt]
provider = "inboxili"
evidence_s = 0

[worker]
handlers = "house_handlers"
app_sql = "app_sql"
lease_s = {LEASE_S}
sweep_s = {SWEEP_S}
grace_s = 3
patience_s = 0.2
retry_base_s = 0.1

[database]
allow_unsafe = true
"""

TABLES = """
CREATE TABLE public.effects (id bigint GENERATED ALWAYS AS IDENTITY, event_key text NOT NULL, run_by int NOT NULL);
"""


def until(look: Callable[[], T], within_s: float = WITHIN_S) -> T:
    """The first true value of `look`; fails with its last value."""
    deadline = time.monotonic() + within_s
    while not (seen := look()):
        assert time.monotonic() < deadline, f"still {seen!r} after {within_s:g} s"
        time.sleep(0.03)
    return seen


def is_stopped(pid: int) -> bool:
    """Whether the process stands still, by a signal."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class House:
    def __init__(self, home: Path, database_url: str) -> None:
        self.home, self.url = home, database_url
        self.processes: list[Running] = []
        self.logs: dict[int, Path] = {}
        sandbox_port, receiver_port = map(str, free_ports(2))
        self.environment = os.environ | {
            "NOTTWICE_HOME": str(home),
            "NOTTWICE_CONFIG": str(home / "house.toml"),
            "DATABASE_URL": database_url,
            "NOTTWICE_SANDBOX_PORT": sandbox_port,
            "NOTTWICE_RECEIVER_PORT": receiver_port,
            "NOTTWICE_SECRET_SHOP_WEBHOOK": "shop-secret",
            "NOTTWICE_SECRET_AGENTMAIL_API": "agentmail-key",
            "NOTTWICE_SECRET_INBOXILI_API": "inboxili-key",
        }
        (home / "house.toml").write_text(CONFIG)
        shutil.copy(HANDLERS, home / "house_handlers.py")
        (home / "app_sql").mkdir()
        (home / "app_sql" / "0001_effects.sql").write_text(TABLES)
        schema.migrate(database_url, app_sql=home / "app_sql")
        self.database = Database(database_url)

    # -- processes ----------------------------------------------------------------------------------------

    def start(self, module: str, *, fault: str = "", **environment: str) -> Running:
        log = self.home / f"{module}-{len(self.processes)}.log"
        with log.open("wb") as out:
            env = self.environment | {"NOTTWICE_FAULT": fault} | environment
            command = [sys.executable, "-m", module]
            process = starts.start(command, env=env, stdout=out.fileno(), stderr=out.fileno())
        self.logs[process.pid] = log
        self.processes.append(process)
        return process

    def sandbox(self) -> Running:
        process = self.start("worker.sandbox")
        until(lambda: self.mails() is not None)
        return process

    def receiver(self, *, fault: str = "", port: int | None = None) -> Running:
        port = port or int(self.environment["NOTTWICE_RECEIVER_PORT"])
        process = self.start("ledger.receiver", fault=fault, NOTTWICE_RECEIVER_PORT=str(port))
        until(lambda: status(port, "/readyz") == 200)
        return process

    def configure(self, *, timeout_s: float) -> None:
        """Another patience with providers, before anything is started."""
        file = self.home / "house.toml"
        file.write_text(file.read_text().replace(f"timeout_s = {ANSWERED_S}", f"timeout_s = {timeout_s}"))

    def leases_run_out(self, of: Running) -> None:
        """What time does to all that one holds who is dead or stands still; the sweep was here just now."""
        self.database.run(lambda tx: leases.run_out(tx, of.pid))

    def worker(self, *, fault: str = "", idle: bool = False) -> Running:
        """A worker that has said that it started; an idle one has no handlers and only sweeps."""
        named = {}
        if idle:
            text = (self.home / "house.toml").read_text().replace('handlers = "house_handlers"\n', "")
            (self.home / "idle.toml").write_text(text)
            named = {"NOTTWICE_CONFIG": str(self.home / "idle.toml")}
        process = self.start("worker", fault=fault, **named)
        until(lambda: '"started"' in self.log(process) or process.poll() is not None)
        assert '"started"' in self.log(process), f"the worker ended at once: {self.log(process)}"
        return process

    def log(self, process: Running) -> str:
        return self.logs[process.pid].read_text(errors="replace")

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        try:
            left = self.database.run(lambda tx: recovery.invariant_violations(tx, late_s=3600.0))
            assert left == [], "R5: nobody would come back to these rows"
        finally:
            self.database.close()

    # -- deliveries ---------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        before = dict(os.environ)
        os.environ.update(self.environment)
        try:
            return load()
        finally:
            os.environ.clear()
            os.environ.update(before)

    def signed(self, body: bytes) -> dict[str, str]:
        import hashlib
        import hmac

        mac = hmac.new(b"shop-secret", body, hashlib.sha256).hexdigest()
        return {"X-Shop-Signature": mac, "X-Shop-Delivery": simulate.delivery_id()}

    def post(self, body: bytes, port: int | None = None) -> int:
        """One delivery; 0 when the line was cut without an answer."""
        port = port or int(self.environment["NOTTWICE_RECEIVER_PORT"])
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/webhooks/shop", body, self.signed(body), method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    # -- what can be seen ---------------------------------------------------------------------------------

    def rows(self, sql: str, **values: Any) -> list[sa.Row[Any]]:
        with self.database.transaction() as tx:
            return list(tx.all(sql, **values))

    def value(self, sql: str, **values: Any) -> Any:
        return self.rows(sql, **values)[0][0]

    def effects(self, key: str) -> int:
        return int(self.value("SELECT count(*) FROM public.effects WHERE event_key = :key", key=key))

    def state(self, key: str) -> str | None:
        rows = self.rows("SELECT state FROM nottwice.events WHERE event_key LIKE '%' || :key", key=key)
        return rows[0].state if rows else None

    def action_state(self, key: str) -> str | None:
        rows = self.rows("SELECT state FROM nottwice.actions WHERE action_key LIKE '%' || :key", key=key)
        return rows[0].state if rows else None

    def mails(self) -> list[dict[str, Any]] | None:
        return self._sandbox("/sandbox/mails")

    def requests(self) -> list[dict[str, Any]] | None:
        return self._sandbox("/sandbox/requests")

    def faults(self, *faults: dict[str, Any]) -> None:
        port = self.environment["NOTTWICE_SANDBOX_PORT"]
        body = json.dumps(list(faults)).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/sandbox/faults", body, method="PUT")
        urllib.request.urlopen(request, timeout=40).close()

    def _sandbox(self, path: str) -> Any:
        try:
            url = f"http://127.0.0.1:{self.environment['NOTTWICE_SANDBOX_PORT']}{path}"
            with urllib.request.urlopen(url, timeout=40) as answer:
                return json.load(answer)
        except OSError:
            return None


def event(type_: str, key: str | None = None, **members: Any) -> tuple[str, bytes]:
    key = key or f"k{secrets.token_hex(6)}"
    return key, json.dumps({"id": key, "type": type_, **members}).encode()


def status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=40) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
