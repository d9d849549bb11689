"""Where processes are struck at their boundaries: one database, one sandbox, one receiver, one sweeper, many short lives.

Each life has a number of its own: an event that is accepted, its local change, its e-mail. Lives go on side by side;
nothing waits for luck, and nothing starts an interpreter (see `zygote.py`).
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from ledger.database import Database
from tests.failures.boundaries import Boundary
from tests.failures.forking import WITHIN_S, Child, Zygote
from tests.failures.house import until
from tests.ports import free_ports

S, T = TypeVar("S"), TypeVar("T")
LEASE_S, SWEEP_S = 1.0, 0.1
PATIENT_S = 20.0  # the lease of who takes over: a busy machine must not make a doubt of its own
SIDE_BY_SIDE = 3
LOOP = "MainThread"  # of a worker, as a boundary names it

CONFIG = f"""
[sources.shop]
kind = "generic"
namespace = "acme"
secrets = ["shop"]
signature_header = "X-Signature"
key_path = "id"
type_path = "type"

[providers.keyed]
kind = "agentmail"
base_url = "http://127.0.0.1:{{sandbox_port}}"
key = "sender"
window_s = 86400
timeout_s = 5.0

[providers.keyless]
kind = "inboxili"
base_url = "http://127.0.0.1:{{sandbox_port}}/api/v1"
key = "sender"
timeout_s = 5.0

[worker]
lease_s = {LEASE_S}
sweep_s = {SWEEP_S}
poll_s = 0.02
patience_s = 0.2
grace_s = 5
endpoints_every_s = 0

[database]
allow_unsafe = true
"""


@dataclass(frozen=True, slots=True)
class Life:
    """One event with its action, and the process that was struck at a boundary, or at none."""

    number: int
    sender: str
    child: Child
    struck: Boundary | None = None
    answers: tuple[int, ...] = ()  # to deliveries, in their order; 0: none

    @property
    def was_struck(self) -> bool:
        return self.struck is not None and self.struck in self.child.ledger.read()


class Ground:
    """`logins`: the database's URL for a worker and for a receiver."""

    def __init__(self, folder: Path, owner_url: str, logins: dict[str, str]) -> None:
        self.folder, self._logins, self._numbers = folder, logins, count(1)
        self.database = Database(owner_url)
        self.run("CREATE TABLE public.effects (event_key text NOT NULL, run_by int NOT NULL)")
        (folder / "ground.toml").write_text(CONFIG)
        (port,) = free_ports(1)
        self._zygote = Zygote(folder, self._environment(port))
        self._sandbox = self._zygote.fork("sandbox", listens=port)
        self._receiver = self._fork("receiver", listens=0)
        self._fork("worker", numbers=[])  # sweeps, so that nobody has to
        until(lambda: self.post(self.door, body(0, "")) == 200)

    def _environment(self, sandbox_port: int) -> dict[str, str]:
        return os.environ | {
            "NOTTWICE_HOME": str(self.folder),
            "NOTTWICE_CONFIG": str(self.folder / "ground.toml"),
            "NOTTWICE_SANDBOX_PORT": str(sandbox_port),
            "NOTTWICE_SECRET_SHOP": "shop-secret",
            "NOTTWICE_SECRET_SENDER": "sender-key",
        }

    def _fork(self, life: str, **request: Any) -> Child:
        return self._zygote.fork(life, environment={"DATABASE_URL": self._logins[life]}, **request)

    def close(self) -> None:
        self._zygote.close()
        self.database.close()

    # -- lives ----------------------------------------------------------------------------------------------

    def begun(self, sender: str, struck: Boundary | None = None, by: int = 0, further: str = "") -> Life:
        """An event is accepted, and a worker of its own begins to work it; it ends with the action, or where it is struck.

        One that nobody strikes, or at its heartbeat, takes its time, so that its leases are renewed; one that is struck
        beside the loop, where all duties are done, does not do those that can wait.
        """
        n = next(self._numbers)
        assert self.deliver(n, sender) == 200
        at = {"road": struck.road if struck else "", "signal": by}
        waits_s = LEASE_S / 2 if struck is None or struck.by == "heartbeat" else 0.0
        at["every_duty"] = struck is None or struck.by == LOOP
        child = self._fork(
            "worker", numbers=[n], once=True, watched=True, further=further, waits_s=waits_s, **at
        )
        return Life(n, sender, child, struck)

    def worked(self, sender: str, struck: Boundary | None = None, **more: Any) -> Life:
        """The same, when its process has ended: killed at the boundary, or by itself."""
        life = self.begun(sender, struck, signal.SIGKILL, **more)
        life.child.wait()
        return life

    def received(self, sender: str, struck: Boundary | None = None) -> Life:
        """A receiver of its own takes in an event, the event again, other content for it, and what is no event."""
        n = next(self._numbers)
        at = {"road": struck.road if struck else "", "signal": signal.SIGKILL}
        child = self._fork("receiver", listens=0, watched=True, **at)
        sent = [body(n, sender), body(n, sender), body(n, sender, more=1), nonsense(n)]
        answers = tuple(self.post(child.port, one) for one in sent)
        self._zygote.signal(child, signal.SIGTERM)
        child.wait()
        return Life(n, sender, child, struck, answers)

    def works(self, n: int) -> Child:
        """A worker for the events of a number, until the end."""
        return self._fork("worker", numbers=[n])

    def take_over(self, lives: Sequence[Life]) -> None:
        """What a restart does: one worker goes on with all that is left, until everything has come to an end."""
        numbers = [life.number for life in lives]
        worker = self._fork("worker", numbers=numbers, worker={"lease_s": PATIENT_S})
        until(lambda: self._is_at_rest(lives))
        self._zygote.signal(worker, signal.SIGTERM)
        assert worker.wait() == 0, worker.said()

    def _is_at_rest(self, lives: Sequence[Life]) -> bool:
        self.run(
            "UPDATE nottwice.actions SET due_at = now() WHERE state = 'approved'"
        )  # a backoff, cut short
        return not self._are(lives, "pending", "processing", "approved", "sending")

    def nothing_is_held(self, lives: Sequence[Life]) -> bool:
        """Whether every claim has been ended, or taken back by the sweep."""
        return not self._are(lives, "processing", "sending")

    def _are(self, lives: Sequence[Life], *states: str) -> bool:
        """Whether the event or the action of any life is in one of these states."""
        sql = """SELECT FROM nottwice.events e LEFT JOIN nottwice.actions a ON a.event_id = e.id
                 WHERE e.type = ANY(:types) AND (e.state = ANY(:states) OR a.state = ANY(:states)) LIMIT 1"""
        types = [f"order.{life.number}" for life in lives]
        return bool(self.rows(sql, types=types, states=list(states)))

    def frozen(self, sender: str, struck: Boundary) -> Life:
        """A worker of its own works an event until it stands still at the boundary, or until its end."""
        life = self.begun(sender, struck, signal.SIGSTOP)
        until(lambda: life.child.ended.is_set() or (life.was_struck and life.child.is_stopped()))
        return life

    def goes_on(self, life: Life) -> None:
        """It wakes up, does what it was about to do, and ends."""
        for number in (signal.SIGCONT, signal.SIGTERM):
            self._zygote.signal(life.child, number)
        assert life.child.wait() == 0, life.child.said()

    def end_idle_transactions(self, after_ms: int) -> None:
        """Of workers that start from now on; 0: the role's own limit."""
        limit = f"SET idle_in_transaction_session_timeout = {after_ms}" if after_ms else "RESET ALL"
        name = self.rows("SELECT quote_ident(current_database()) AS name")[0].name
        self.run(f"ALTER ROLE nottwice_worker IN DATABASE {name} {limit}")

    # -- what can be seen -----------------------------------------------------------------------------------

    def rows(self, sql: str, **values: Any) -> Sequence[sa.Row[Any]]:
        return self.database.run(lambda tx: tx.all(sql, **values))

    def run(self, sql: str) -> None:
        self.database.run(lambda tx: tx.execute(sql))

    def seen_by_the_provider(self, what: str) -> list[dict[str, Any]]:
        """Its `mails`, or its `requests`."""
        line = http.client.HTTPConnection("127.0.0.1", self._sandbox.port, timeout=WITHIN_S)
        try:
            line.request("GET", f"/sandbox/{what}")
            found: list[dict[str, Any]] = json.loads(line.getresponse().read())
            return found
        finally:
            line.close()

    # -- deliveries -----------------------------------------------------------------------------------------

    @property
    def door(self) -> int:
        """The port of the receiver that stays."""
        return self._receiver.port

    def deliver(self, n: int, sender: str) -> int:
        """Post the event of a number to the receiver that stays."""
        return self.post(self.door, body(n, sender))

    def post(self, port: int, content: bytes) -> int:
        """One delivery; 0 when the line was cut without an answer."""
        mac = hmac.new(b"shop-secret", content, hashlib.sha256).hexdigest()
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
        try:
            line.request("POST", "/webhooks/shop", content, {"X-Signature": mac})
            return line.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            line.close()


def body(n: int, sender: str, *, id_: str = "", **more: int) -> bytes:
    """The event of a number; with an id of its own another one of the same type."""
    return json.dumps({"id": id_ or f"k{n}", "type": f"order.{n}", "kind": f"{sender}-{n}", **more}).encode()


def nonsense(n: int) -> bytes:
    """Authentic, and no event: it has no key."""
    return json.dumps({"nonsense": n}).encode()


def side_by_side(one: Callable[[S], T], of_each: Iterable[S]) -> list[T]:
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return list(pool.map(one, of_each))
