"""`python -m worker.sandbox.traffic`: the demo's live traffic. Invented people, real signatures.

About one event a second, some delivered twice or in bursts, a conflict now and then, a forged one, and sends whose
answer is lost: some accepted, some not, so that only looking tells.
"""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import signal
import sys
import threading
import urllib.request
from datetime import UTC, datetime
from typing import Any

from ledger import simulate
from ledger.errors import LedgerError, Unavailable
from ledger.settings import Settings, load

PAUSE_S = 0.9
UNCERTAIN_AT_S = (6, 14, 22, 30)  # the first ones come early, so that the desk is not empty
UNCERTAIN_EVERY_S = 75
DUPLICATES = 0.15
PEOPLE = (
    *("ana.ruiz@example.com", "j.okafor@example.org", "li.wei@example.net", "m.dubois@example.com"),
    *("søren.holm@example.org", "priya.n@example.net", "tomasz.k@example.com", "support@pаypal-help.example"),
)
SUBJECTS = (
    *(
        "Cannot log in",
        "Where is my order?",
        "¿Cómo cambio mi dirección?",
        "Facture manquante",
        "請問如何退貨",
    ),
    *("Delivery to another country", "<img src=x onerror=alert(1)> my account", "Question about **prices**"),
    *("Please send the manual", "Refund for INV-2031", "Password"),
)


class Traffic:
    def __init__(self, settings: Settings) -> None:
        self.settings, self.stopping = settings, threading.Event()
        self._earlier: list[tuple[str, bytes]] = []
        self._passed_s = 0.0
        self._uncertain_at = list(UNCERTAIN_AT_S)

    def run(self) -> None:
        while not self.stopping.wait(pause := random.expovariate(1 / PAUSE_S)):
            self._passed_s += pause
            try:
                self.once()
            except Unavailable:
                self.stopping.wait(2)

    def once(self) -> None:
        if self._passed_s >= self._uncertain_at[0]:
            self._lose_an_answer()
        elif self._earlier and random.random() < DUPLICATES:
            self._repeat()
        elif random.random() < 0.01:
            self._forge()
        else:
            self._deliver(*self._new())

    def _new(self) -> tuple[str, bytes]:
        return ("shop", payment()) if random.random() < 0.35 else ("agentmail", message())

    def _deliver(self, source: str, body: bytes, copies: int = 1) -> None:
        delivery = simulate.delivery_id()
        for _ in range(copies):
            simulate.post(self.settings, source, body, delivery)
        self._earlier = [*self._earlier[-40:], (source, body)]

    def _repeat(self) -> None:
        """The provider did not see our answer, or thinks so; now and then with other content under the same key."""
        source, body = random.choice(self._earlier)
        if random.random() < 0.06:
            body = body.replace(b"example", b"example-2", 1)
            simulate.post(self.settings, source, body, simulate.delivery_id())
            return
        for _ in range(random.choice((1, 1, 1, 2, 5))):
            simulate.post(self.settings, source, body, simulate.delivery_id())

    def _forge(self) -> None:
        body = message()
        wrong = simulate.signed(self.settings, "agentmail", body + b" ", "msg_forged")
        url = f"http://127.0.0.1:{self.settings.receiver_port}/webhooks/agentmail"
        request = urllib.request.Request(url, body, wrong, method="POST")
        with contextlib.suppress(OSError):  # 401, as it should be
            urllib.request.urlopen(request, timeout=5).close()  # noqa: S310

    def _lose_an_answer(self) -> None:
        """Arm one fault, then deliver what makes the send that it strikes."""
        last = self._uncertain_at.pop(0)
        if not self._uncertain_at:
            self._uncertain_at = [last + UNCERTAIN_EVERY_S]
        keyless = random.random() < 0.75
        fault: dict[str, Any] = {"provider": "inboxili" if keyless else "agentmail", "count": 1}
        fault |= random.choice(({"accept_then_silence": True, "silence_s": 8}, {"cut": True}))
        self._arm(fault)
        self._deliver(*(("shop", payment()) if keyless else ("agentmail", message())))

    def _arm(self, fault: dict[str, Any]) -> None:
        url = f"http://127.0.0.1:{self.settings.sandbox_port}/sandbox/faults"
        request = urllib.request.Request(url, json.dumps(fault).encode(), method="PUT")
        with contextlib.suppress(OSError):  # the sandbox is being restarted; the next one will do
            urllib.request.urlopen(request, timeout=5).close()  # noqa: S310


def message() -> bytes:
    subject = "unreadable attachment" if random.random() < 0.015 else random.choice(SUBJECTS)
    return simulate.message_received(random.choice(PEOPLE), subject, "Hello, can you help me? Thank you.")


def payment() -> bytes:
    number = f"INV-{secrets.randbelow(900_000) + 100_000}"
    invoice = {
        "number": number,
        "customer": random.choice(PEOPLE),
        "amount": f"{random.randint(500, 250_000) / 100:.2f}",
        "currency": "EUR",
    }
    event = {"id": f"evt_{secrets.token_hex(8)}", "type": "invoice.paid", "invoice": invoice}
    return json.dumps(event | {"created": datetime.now(UTC).isoformat(timespec="seconds")}).encode()


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
