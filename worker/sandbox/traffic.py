"""`python -m worker.sandbox.traffic`: the demo's live traffic. Invented people, real signatures.

One to two events a second; about one delivery in seven is a repeat, now and then many at the same instant; rarely
a copy with other content, and one whose signature is wrong. About one send in 25 meets a fault of the sandbox: those
through AgentMail heal by their key, those through Inboxili wait for a person. Each fault is aimed at one send, so that
the sandbox's own log tells whether that one went out: half of them did.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sys
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ledger.errors import LedgerError, Unavailable
from ledger.settings import Settings, load
from ledger.simulated import simulate
from ledger.views import status
from worker.sandbox.people import broken, invoice_number, login, message, payment, refund, signup

PAUSE_S = 0.75
SHOP_SHARE = 0.35
REPEATED = 0.09
CHANGED = 0.05  # of what is repeated
FORGED = 0.005
# The first uncertain sends come soon: within a minute a newcomer has ten to decide.
EARLY_S = tuple(5.0 + 4.0 * n for n in range(11))
UNCERTAIN_EVERY_S = 60.0
WAITING_MAX = 12  # more on the desk shows nothing new
HEALING_EVERY_S = 22.0
REFUND_EVERY_S = 90.0
TO_APPROVE_MAX = 6
BROKEN_EVERY_S = 50.0
SIGNUP_EVERY_S, LOGIN_EVERY_S = 14.0, 19.0
COPIES = (*(1,) * 12, 2, 2, 3, 15)

LOST_AT_INBOXILI: tuple[dict[str, Any], ...] = (
    {"accept_then_silence": True},
    {"cut": True, "accept": True},
    {"cut": True},
    {"silence": True},
)
HEALS_AT_AGENTMAIL: tuple[dict[str, Any], ...] = (
    {"status": 503},
    {"status": 503, "accept": True},
    {"accept_then_silence": True},
    {"cut": True},
)


class Every:
    """Due at the given seconds after the start, then again and again."""

    def __init__(self, first_s: tuple[float, ...], then_s: float) -> None:
        self._first, self._then_s = deque(first_s), then_s

    def is_due(self, passed_s: float) -> bool:
        if passed_s < self._first[0]:
            return False
        self._first.popleft()
        if not self._first:
            self._first.append(passed_s + self._then_s)
        return True


class Traffic:
    """One run. `once` does one thing that happens on an ordinary day."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stopping = threading.Event()
        self._began = time.monotonic()
        self._earlier: deque[tuple[str, bytes]] = deque(maxlen=60)
        self._uncertain = Every(EARLY_S, UNCERTAIN_EVERY_S)
        self._healing = Every((10.0,), HEALING_EVERY_S)
        self._refund = Every((8.0,), REFUND_EVERY_S)
        self._broken = Every((7.0,), BROKEN_EVERY_S)
        self._signup, self._login = Every((4.0,), SIGNUP_EVERY_S), Every((6.0,), LOGIN_EVERY_S)
        self._kinds = deque(random.sample(LOST_AT_INBOXILI, len(LOST_AT_INBOXILI)))

    def run(self) -> None:
        while not self.stopping.wait(random.expovariate(1 / PAUSE_S)):
            try:
                self.once(time.monotonic() - self._began)
            except Unavailable:  # the receiver is not there yet, or not any more
                self.stopping.wait(1)

    def once(self, passed_s: float) -> None:
        if self._uncertain.is_due(passed_s) and self._waiting("actions", "needs_review") < WAITING_MAX:
            self.lose_a_receipt()
        elif self._healing.is_due(passed_s):
            self.disturb_an_acknowledgement()
        elif self._refund.is_due(passed_s) and self._waiting("actions", "proposed") < TO_APPROVE_MAX:
            self._deliver("agentmail", refund())
        elif self._broken.is_due(passed_s) and self._waiting("events", "failed") < WAITING_MAX:
            self._deliver("agentmail", broken())
        elif self._signup.is_due(passed_s):
            self._deliver("shop", _json(signup()))
        elif self._login.is_due(passed_s):
            self._deliver("shop", _json(login()))
        elif self._earlier and random.random() < REPEATED:
            self.repeat()
        elif random.random() < FORGED:
            self.forge()
        elif random.random() < SHOP_SHARE:
            self._deliver("shop", _json(payment(invoice_number())))
        else:
            self._deliver("agentmail", message())

    def lose_a_receipt(self) -> None:
        """A send whose answer is lost, at a provider without keys. In turn it went out and did not."""
        number = invoice_number()
        self._kinds.rotate(1)
        if self._arm({"provider": "inboxili", "match": number} | self._kinds[0]):
            self._deliver("shop", _json(payment(number)))

    def disturb_an_acknowledgement(self) -> None:
        """A send whose answer is lost, at a provider with keys: the next try finds out by itself."""
        body = message()
        message_id = json.loads(body)["message"]["message_id"]
        fault = {"provider": "agentmail", "match": quote(message_id, safe="")}
        if self._arm(fault | random.choice(HEALS_AT_AGENTMAIL)):
            self._deliver("agentmail", body)

    def repeat(self) -> None:
        """The provider did not see our answer, or thinks so; rarely it sends something else under the same key."""
        source, body = random.choice(self._earlier)
        if random.random() < CHANGED:
            simulate.post(self.settings, source, _changed(body), simulate.delivery_id())
        else:
            simulate.post_all(self.settings, source, [body] * random.choice(COPIES))

    def forge(self) -> None:
        """Somebody else than the provider; it is answered 401."""
        delivery, body = simulate.delivery_id(), message()
        wrong = simulate.signed(self.settings, "agentmail", body + b" ", delivery)
        simulate.post(self.settings, "agentmail", body, delivery, wrong)

    def _deliver(self, source: str, body: bytes) -> None:
        if source == "agentmail" and not self._arrive(body):
            return  # AgentMail has switched its endpoint off
        simulate.post(self.settings, source, body, simulate.delivery_id())
        self._earlier.append((source, body))

    def _arrive(self, body: bytes) -> bool:
        """The letter lies in its inbox at the provider, whatever becomes of its webhook; whether that is posted."""
        with contextlib.suppress(OSError), self._asked("incoming", body) as answer:
            return bool(json.load(answer)["enabled"])
        return True

    def _waiting(self, what: str, state: str) -> int:
        try:
            return int(status.read(self.settings)[what].get(state, 0))
        except LedgerError:
            return WAITING_MAX  # not to be asked now: nothing is added

    def _arm(self, fault: Mapping[str, Any]) -> bool:
        """Add a fault to those that a person may have set; whether the sandbox was there."""
        with contextlib.suppress(OSError), self._asked("faults", _json(fault)):
            return True
        return False

    def _asked(self, what: str, body: bytes) -> Any:
        """The sandbox's answer. Raises OSError when there is none."""
        url = f"http://127.0.0.1:{self.settings.sandbox_port}/sandbox/{what}"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(request, timeout=5)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _changed(body: bytes) -> bytes:
    """The same event with other content."""
    event = json.loads(body)
    what = next(name for name in ("message", "invoice", "customer", "login") if name in event)
    event[what]["text" if what == "message" else "amount"] = "7.00"
    return _json(event)


def main() -> int:
    try:
        traffic = Traffic(load())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: traffic.stopping.set())
        traffic.run()
    except LedgerError as error:
        sys.stderr.write(f"traffic: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
