"""The demo's content: its configuration is valid, its handlers do each thing once, its traffic tells the truth."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import pytest

from ledger import inbox, schema
from ledger.database import Database
from ledger.records import (
    Accepted,
    Delivery,
    Email,
    Event,
    InFlight,
    Refused,
    Unknown,
    canonical_json,
    digest_of,
)
from ledger.settings import Settings, load
from ledger.simulated import examples
from tests.fix_sandbox import RawServer, Sandbox, Script, claimed, until
from worker import providers
from worker.handlers import Propose, SetAside
from worker.sandbox import people, traffic, truth
from worker.sandbox.handlers import handlers
from worker.sandbox.traffic import Every, Traffic

SECRETS = {
    "AGENTMAIL": "whsec_c2VjcmV0IGVub3VnaA==",
    "SHOP": "shop-secret",
    "AGENTMAIL_API": "am-key",
    "INBOXILI": "inboxili-secret",
    "INBOXILI_API": "ix-key",
    "MAILERA_API": "ml-key",
    "SMTP_PASSWORD": "post-key",
}


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    """The demo's own configuration, for a sandbox and a receiver."""
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    for name, value in SECRETS.items():
        monkeypatch.setenv(f"NOTTWICE_SECRET_{name}", value)
    (tmp_path / "demo.toml").write_text(files("worker.sandbox").joinpath("demo.toml").read_text("utf-8"))

    def read(
        *,
        sandbox: str = "http://127.0.0.1:1",
        receiver: str = "http://127.0.0.1:1",
        mail: str = "smtp://127.0.0.1:1",
    ) -> Settings:
        monkeypatch.setenv("NOTTWICE_SANDBOX_PORT", sandbox.rpartition(":")[2])
        monkeypatch.setenv("NOTTWICE_RECEIVER_PORT", receiver.rpartition(":")[2])
        monkeypatch.setenv("NOTTWICE_SANDBOX_SMTP_PORT", mail.rpartition(":")[2])
        return load()

    return read


def test_the_log_of_the_demo_is_opened_at_the_send_that_is_looked_for(demo: Callable[..., Settings]) -> None:
    for provider in demo().providers.values():
        query = dict(parse_qsl(urlsplit(provider.log_of("Invoice 7 & more", "")).query))
        assert query == {"provider": provider.kind, "to": "Invoice 7 & more"}


@pytest.fixture
def shop(
    database: Database, database_url: str, demo: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> Shop:
    monkeypatch.setattr("worker.sandbox.handlers.THINKING_S", 0)
    settings = demo()
    schema.migrate(database_url, app_sql=settings.app_sql)
    return Shop(database, settings)


class Shop:
    """The demo's tables, and its handlers run as the worker runs them."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database, self.settings = database, settings

    def handle(self, source: str, body: bytes, *, times: int = 1) -> None:
        event = self._accepted(source, body)
        handler = handlers.find(event)
        for _ in range(times):
            prepared = handler.prepare(event)
            with self.database.transaction() as tx:
                handler.commit(tx, event, prepared, Propose(tx, event, self.settings))

    def _accepted(self, source: str, body: bytes) -> Event:
        document, key = json.loads(body), uuid4().hex
        type_ = document.get("event_type") or document["type"]
        delivery = Delivery("acme", source, type_, key, digest_of(key), body, digest_of(body))
        (accepted,) = self.database.run(lambda tx: inbox.accept(tx, [delivery], writer=uuid4()))
        assert accepted.event_id is not None
        at = self.database.run(lambda tx: tx.one("SELECT now() AS at")).at
        return Event(accepted.event_id, "acme", source, type_, key, body, at, None)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.database.run(lambda tx: tx.all(sql))]

    def contents(self) -> list[Email]:
        sql = "SELECT content FROM nottwice.action_contents ORDER BY action_id"
        stored = [json.loads(bytes(row[0])) for row in self.rows(sql)]
        return [
            Email(**{k: tuple(v) if isinstance(v, list) else v for k, v in one.items()}) for one in stored
        ]


ACTIONS = "SELECT kind, provider, state, cost FROM nottwice.actions ORDER BY id"


def letter(**changes: Any) -> bytes:
    event = json.loads(examples.message_received("Ana Ruiz <ana@example.com>", "Hello", "Hi"))
    event["message"].update(changes)
    return json.dumps(event).encode()


def test_a_letter_is_a_ticket_and_one_acknowledgement(shop: Shop) -> None:
    body = letter(message_id="<m@x>")
    shop.handle("agentmail", body, times=2)
    shop.handle("agentmail", body)  # the same message under another event id
    assert shop.rows("SELECT sender, subject FROM public.demo_tickets") == [
        ("Ana Ruiz <ana@example.com>", "Hello")
    ]
    assert shop.rows(ACTIONS) == [("acknowledgement", "agentmail", "approved", "medium")]
    (email,) = shop.contents()
    assert (email.to, email.inbox, email.in_reply_to) == (
        ("Ana Ruiz <ana@example.com>",),
        "support@acme.example",
        "<m@x>",
    )


def test_a_refund_waits_for_a_person(shop: Shop) -> None:
    shop.handle("agentmail", people.refund())
    assert shop.rows(ACTIONS) == [
        ("acknowledgement", "agentmail", "approved", "medium"),
        ("answer", "agentmail", "proposed", "medium"),
    ]


def test_a_payment_is_booked_once_and_gets_one_receipt(shop: Shop) -> None:
    first, again = (people.payment("INV-7") | {"invoice": {"number": "INV-7", "customer": "bo@example.com", "amount": "12.00",
                                                            "currency": "EUR"}} for _ in range(2))  # fmt: skip
    for event in (first, again):  # one occurrence, two events: the shop's own mistake
        shop.handle("shop", json.dumps(event).encode())
    assert shop.rows("SELECT invoice, CAST(amount AS text) FROM public.demo_payments") == [("INV-7", "12.00")]
    assert shop.rows(ACTIONS) == [("receipt", "inboxili", "approved", "high")]
    assert shop.rows("SELECT action_key FROM nottwice.actions") == [("invoice:INV-7:paid",)]


def test_a_welcome_goes_through_mailera_once_ever_and_an_alert_by_smtp(
    shop: Shop, sandbox: Sandbox, demo: Callable[..., Settings]
) -> None:
    signup, login = json.dumps(people.signup()).encode(), json.dumps(people.login()).encode()
    for body in (signup, signup, login):
        shop.handle("shop", body)
    assert shop.rows(ACTIONS) == [
        ("welcome", "mailera", "approved", "low"),
        ("security-alert", "smtp", "approved", "low"),
    ]
    settings = demo(sandbox=sandbox.url, mail=sandbox.mail_url)
    for name, email in zip(("mailera", "smtp"), shop.contents(), strict=True):
        assert isinstance(providers.build(settings, name).send(claimed(email, key="k"), 20), Accepted)
    assert [(m["provider"], m["subject"][:11]) for m in sandbox.mails] == [
        ("mailera", "Welcome to "),
        ("smtp", "New sign-in"),
    ]


def test_a_letter_that_cannot_be_read_fails(shop: Shop) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        shop.handle("agentmail", people.broken())


@pytest.mark.parametrize("missing", ["from", "inbox_id", "message_id"])
def test_a_letter_nobody_can_answer_is_set_aside_at_once(shop: Shop, missing: str) -> None:
    with pytest.raises(SetAside, match=missing):
        shop.handle("agentmail", letter(**{missing: None}))


@pytest.mark.parametrize("name", ["inbox_id", "message_id"])
@pytest.mark.parametrize("character", ["\u0000", "\ud800"])
def test_ids_that_are_no_text_set_it_aside(shop: Shop, name: str, character: str) -> None:
    with pytest.raises(SetAside, match="not text"):
        shop.handle("agentmail", letter(**{name: f"m{character}"}))


HOSTILE = [
    {"subject": "=?utf-8?q?hi=0D=0ABcc=3A_x=40example=2Eorg?="},
    {"subject": "a\r\nBcc: x@example.org"},
    {"subject": "x" * 5000},
    {"subject": None},
    {"subject": "nul\u0000 \u2028 \ud800"},
    {"from": "Ana\nBcc: x <ana@example.com>"},
    {"from": "nul\u0000 <ana@example.com>"},
    {"message_id": "m" * 5000},
    {"message_id": "m\r\n\u2028"},
    {"inbox_id": "../../x#?"},
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_msg_06_a_hostile_letter_burns_no_retries(
    shop: Shop, sandbox: Sandbox, demo: Callable[..., Settings], hostile: dict[str, Any]
) -> None:
    """HTTP's JSON in, the provider's request out: handled at the first try, and at most its one recipient is written to."""
    shop.handle("agentmail", letter(**hostile))
    (email,) = shop.contents()
    provider = providers.build(demo(sandbox=sandbox.url), "agentmail")
    outcome = provider.send(claimed(email, key="k"), 5)
    assert isinstance(outcome, Accepted | Refused)
    assert [m["recipients"][0].rpartition("<")[2] for m in sandbox.mails] in ([], ["ana@example.com>"])
    assert all(len(m["recipients"]) == 1 for m in sandbox.mails)


def test_every_letter_of_the_demo_can_be_answered(
    shop: Shop, sandbox: Sandbox, demo: Callable[..., Settings]
) -> None:
    settings = demo(sandbox=sandbox.url)
    for person in people.PEOPLE:
        for subject, text in (*people.LETTERS, people.HOSTILE, people.REFUND)[:: len(people.PEOPLE) // 3]:
            shop.handle("agentmail", examples.message_received(person, subject, text))
        shop.handle("shop", json.dumps(people.payment(people.invoice_number()) | {}).encode())
    for number, email in enumerate(shop.contents()):
        provider = providers.build(settings, "agentmail" if email.in_reply_to else "inboxili")
        assert isinstance(provider.send(claimed(email, key=f"k-{number}"), 5), Accepted)


# ── Traffic ───────────────────────────────────────────────────────────────────────────────────────────


def accepted(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def body_of(raw: bytes) -> dict[str, Any]:
    return dict(json.loads(raw.partition(b"\r\n\r\n")[2]))


def test_uncertain_receipts_went_out_in_turn(
    sandbox: Sandbox, raw_server: Callable[[Script], RawServer], demo: Callable[..., Settings]
) -> None:
    """Each fault strikes the one send it is meant for, whatever else is sent before; the log knows what became of it."""
    server = raw_server(accepted)
    settings = demo(sandbox=sandbox.url, receiver=server.url)
    lively = Traffic(settings)
    went_out = []
    for _ in range(4):
        lively.lose_a_receipt()
        number = body_of(server.requests[-1])["invoice"]["number"]
        provider = providers.build(settings, "inboxili")
        other = Email(to=("bo@example.com",), subject="Another", text="T", sender="b@acme.example")
        assert isinstance(provider.send(claimed(other), 5), Accepted)
        receipt = replace(other, subject=f"Your receipt for invoice {number}")
        assert isinstance(provider.send(claimed(receipt), 0.3), Unknown)
        went_out.append(bool(sandbox.http.get("/sandbox/mails", params={"to": number}).json()))
    assert sorted(went_out) == [False, False, True, True]
    assert sandbox.http.get("/sandbox/faults").json() == []


@pytest.mark.parametrize("fault", traffic.HEALS_AT_AGENTMAIL, ids=str)
def test_acknowledgements_heal_by_their_key(
    sandbox: Sandbox,
    raw_server: Callable[[Script], RawServer],
    demo: Callable[..., Settings],
    monkeypatch: pytest.MonkeyPatch,
    fault: dict[str, Any],
) -> None:
    monkeypatch.setattr(traffic, "HEALS_AT_AGENTMAIL", (fault,))
    server = raw_server(accepted)
    settings = demo(sandbox=sandbox.url, receiver=server.url)
    Traffic(settings).disturb_an_acknowledgement()
    message = body_of(server.requests[0])["message"]
    email = Email(
        to=("ana@example.com",), subject="s", text="t", inbox="i@x", in_reply_to=message["message_id"]
    )
    provider = providers.build(settings, "agentmail")
    assert isinstance(provider.send(claimed(email, key="k"), 0.3), Unknown | InFlight)
    assert isinstance(until(lambda: provider.send(claimed(email, key="k"), 40), 40), Accepted)
    assert len(sandbox.mails) == 1


def test_faults_of_a_person_stay_armed(
    sandbox: Sandbox, raw_server: Callable[[Script], RawServer], demo: Callable[..., Settings]
) -> None:
    sandbox.faults({"status": 500, "match": "mine"})
    Traffic(demo(sandbox=sandbox.url, receiver=raw_server(accepted).url)).lose_a_receipt()
    armed = sandbox.http.get("/sandbox/faults").json()
    assert armed[0] == {"status": 500, "match": "mine", "count": 1}
    assert len(armed) == 2


def test_an_ordinary_minute(raw_server: Callable[[Script], RawServer], demo: Callable[..., Settings]) -> None:
    """About one delivery in six is a copy; all are signed for their source; nothing is added that cannot be counted."""
    server = raw_server(accepted)
    lively = Traffic(demo(receiver=server.url))
    for _ in range(400):
        lively.once(0.0)
    copies = Counter(raw.partition(b"\r\n\r\n")[2] for raw in server.requests)
    share = 1 - len(copies) / len(server.requests)
    assert 0.05 < share < 0.35
    targets = Counter(raw.split(b" ", 2)[1] for raw in server.requests)
    assert set(targets) == {b"/webhooks/agentmail", b"/webhooks/shop"}
    assert 0.15 < targets[b"/webhooks/shop"] / len(server.requests) < 0.6


def test_a_changed_copy_keeps_its_key() -> None:
    for body, key in ((people.message(), "event_id"), (canonical_json(people.payment("INV-1")), "id")):
        changed = traffic._changed(body)
        assert changed != body
        assert json.loads(changed)[key] == json.loads(body)[key]


def test_a_newcomer_has_ten_to_decide_within_a_minute() -> None:
    assert len([at for at in traffic.EARLY_S if at < 60]) >= 10
    assert traffic.WAITING_MAX >= 10


def test_the_truth_can_be_asked_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        truth.main(["--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert end.value.code == 0
    assert "what really became of the demo's uncertain sends" in told and "NOTTWICE_HOME=" in told


def test_the_truth_judges_what_people_decided_by_what_went_out() -> None:
    mails = [
        {"provider": "inboxili", "recipients": ["a@x"], "subject": f"Receipt {n}", "message_id": f"<m-{i}@x>"}
        for i, n in enumerate((1, 1, 2, 3, 7, 9, 9))
    ]

    def send(n: int, state: str, act: str = "", *, messages: tuple[str, ...] = ()) -> SimpleNamespace:
        of = {
            "id": n,
            "messages": messages,
            "kind": "receipt",
            "about": f"INV-{n}",
            "recipients": ["a@x"],
            "subject": f"Receipt {n}",
        }
        return SimpleNamespace(**of, provider="inboxili", state=state, act=act, who="Ana")

    def again(n: int, message: str) -> SimpleNamespace:
        """The next generation of a send, which its provider answered."""
        made = send(n, "sent", "send again with a new key", messages=(message,))
        return SimpleNamespace(**vars(made) | {"id": 100 + n})

    found = truth.judged(
        [
            send(1, "sent", "send again with a new key"),
            send(2, "sent", "closed as sent"),
            send(3, "closed", "closed without sending"),
            send(4, "closed", "closed without sending"),
            send(5, "sent", "closed as sent"),
            send(6, "needs_review"),
            send(7, "closed", "agreed: send again with a new key"),
            again(7, "m-4@x"),
            send(9, "closed", "agreed: send again with a new key"),
            again(9, "<m-6@x>"),
        ],
        mails,
    )
    assert [one.is_right for one in found] == [False, True, False, True, False, None, True, True, False, True]
    assert found[0].line == "1  receipt, INV-1: went out 2 times. Ana: send again with a new key. WRONG."
    assert found[5].line == "6  receipt, INV-6: did not go out. It waits."


def test_what_is_due_is_due_once_and_again() -> None:
    due = Every((5.0, 14.0), 60.0)
    assert [s for s in range(400) if due.is_due(float(s))] == [5, 14, 74, 134, 194, 254, 314, 374]
    late = Every((5.0,), 60.0)
    assert [late.is_due(s) for s in (1000.0, 1001.0, 1060.0)] == [True, False, True]
