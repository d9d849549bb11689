"""The stand-in for the providers behaves as they do, breaks as it is told, and forgets nothing over a restart."""

from __future__ import annotations

import os
import smtplib
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from agentmail import AgentMail as Client
from agentmail.environment import AgentMailEnvironment

from tests import starts
from tests.fix_sandbox import NO_TLS, Sandbox, until
from tests.ports import free_ports
from worker.sandbox.faults import Faults, parse
from worker.sandbox.store import Conflict, Store

SEND = "/v0/inboxes/support%40acme.example/messages/send"
MAIL = {"to": ["ana@example.com"], "subject": "Hello", "text": "T", "labels": ["nt-1"]}
ML = {"Authorization": "Bearer ml-key"}
RECEIPT = {
    "to": "ana@example.com",
    "from_email": "shop@acme.example",
    "subject": "Receipt 7",
    "html_body": "<p>T</p>",
}


def agentmail(http: httpx.Client, key: str | None = None, path: str = SEND, **changes: Any) -> httpx.Response:
    headers = {"Authorization": "Bearer am-key"} | ({"Idempotency-Key": key} if key is not None else {})
    return http.post(path, json=MAIL | changes, headers=headers)


def inboxili(http: httpx.Client, **changes: Any) -> httpx.Response:
    body = {name: value for name, value in (RECEIPT | changes).items() if value is not None}
    return http.post("/api/v1/transactional/send", json=body, headers={"Authorization": "Bearer ix-key"})


# ── The two APIs ──────────────────────────────────────────────────────────────────────────────────────


def test_every_accepted_mail_is_listed(sandbox: Sandbox) -> None:
    sent = agentmail(sandbox.http, "k-1", cc=["c@example.com"]).json()
    receipt = inboxili(sandbox.http).json()
    first, second = sandbox.mails
    assert first["message_id"] == sent["message_id"]
    assert first["thread_id"] == sent["thread_id"]
    assert first["path"] == SEND
    assert first["idempotency_key"] == "k-1"
    assert first["recipients"] == ["ana@example.com", "c@example.com"]
    assert receipt == {"status": "sent", "message_id": second["message_id"]}
    assert (second["provider"], second["recipients"]) == ("inboxili", ["ana@example.com"])
    assert [m["body_digest"] for m in sandbox.mails] == [r["body_digest"] for r in sandbox.requests]
    assert all(m["time"].endswith("+00:00") for m in sandbox.mails)


def test_mails_can_be_narrowed(sandbox: Sandbox) -> None:
    agentmail(sandbox.http, "k-1")
    inboxili(sandbox.http, to="bo@example.com")
    found = {
        query: [m["provider"] for m in sandbox.http.get("/sandbox/mails", params=query).json()]
        for query in ("provider=inboxili", "to=BO@", "key=k-1", "to=nobody")
    }
    assert found == {
        "provider=inboxili": ["inboxili"],
        "to=BO@": ["inboxili"],
        "key=k-1": ["agentmail"],
        "to=nobody": [],
    }


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ix-key", "am-key", "Bearer am-key2"])
def test_the_bearer_key_is_checked(sandbox: Sandbox, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = sandbox.http.post(SEND, json=MAIL, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert sandbox.mails == []
    assert len(sandbox.requests) == 1


@pytest.mark.parametrize("key", ["", "a b", "ü", "x" * 257, "a/b", "a@b"])
def test_a_key_of_another_form_is_refused(sandbox: Sandbox, key: str) -> None:
    headers = {b"Authorization": b"Bearer am-key", b"Idempotency-Key": key.encode()}
    assert sandbox.http.post(SEND, json=MAIL, headers=headers).status_code == 400
    assert sandbox.mails == []


@pytest.mark.parametrize("body", [b"", b"[]", b"no", b"{}", b'{"to": []}'])
def test_nonsense_is_refused_and_leaves_its_key_free(sandbox: Sandbox, body: bytes) -> None:
    headers = {"Authorization": "Bearer am-key", "Idempotency-Key": "k-1"}
    assert sandbox.http.post(SEND, content=body, headers=headers).status_code == 400
    assert agentmail(sandbox.http, "k-1").status_code == 200


@pytest.mark.parametrize("missing", RECEIPT)
def test_inboxili_wants_its_members(sandbox: Sandbox, missing: str) -> None:
    answer = inboxili(sandbox.http, **{missing: None})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "validation_error")


def test_agentmail_lists_by_our_label(sandbox: Sandbox) -> None:
    """As reconciliation will ask, through the published package."""
    agentmail(sandbox.http, "k-1")
    sent = agentmail(
        sandbox.http, "k-2", "/v0/inboxes/support%40acme.example/messages/%3Cm%40x%3E/reply", labels=["nt-2"]
    )
    environment = AgentMailEnvironment(http=sandbox.url, websockets="")
    with httpx.Client(trust_env=False, verify=NO_TLS) as http:
        client = Client(environment=environment, api_key="am-key", httpx_client=http)
        listed = client.inboxes.messages.list("support%40acme.example", labels=["nt-2"])
        thread = client.inboxes.threads.get("support%40acme.example", sent.json()["thread_id"])
        found = client.inboxes.messages.get(
            "support%40acme.example", httpx.URL("", path=sent.json()["message_id"]).path
        )
    assert [m.message_id for m in listed.messages] == [sent.json()["message_id"]]
    assert listed.messages[0].in_reply_to == "<m@x>"
    assert "sent" in listed.messages[0].labels
    assert [m.message_id for m in thread.messages] == [sent.json()["message_id"]]
    assert found.subject == "Hello"


# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_gives_the_first_answer_again(sandbox: Sandbox) -> None:
    first, again = (agentmail(sandbox.http, "k-1") for _ in range(2))
    assert first.json() == again.json()
    assert len(sandbox.mails) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"text": "U"},
        {"path": "/v0/inboxes/sales%40acme.example/messages/send"},
        {"path": SEND.replace("send", "m/reply")},
    ],
)
def test_a_key_is_organisation_wide(sandbox: Sandbox, other: dict[str, Any]) -> None:
    agentmail(sandbox.http, "k-1")
    answer = agentmail(sandbox.http, "k-1", **other)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert len(sandbox.mails) == 1


def test_one_key_at_the_same_instant_is_one_mail(sandbox: Sandbox) -> None:
    barrier = threading.Barrier(20)

    def at_once(_: int) -> int:
        barrier.wait(40)
        return agentmail(sandbox.http, "k-1").status_code

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(at_once, range(20)))
    assert set(answers) <= {200, 409}
    assert 200 in answers
    assert len(sandbox.mails) == 1


def test_a_key_under_way_is_a_conflict(sandbox: Sandbox) -> None:
    sandbox.faults({"delay_s": 0.5})
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(agentmail, sandbox.http, "k-1")
        until(lambda: sandbox.mails, 40)
        busy = agentmail(sandbox.http, "k-1")
        nonsense = agentmail(sandbox.http, "k-1", to=[], text="refused, and no end of the first")
        still_busy = agentmail(sandbox.http, "k-1")
        first = slow.result()
    assert [a.status_code for a in (busy, nonsense, still_busy)] == [409, 400, 409]
    assert agentmail(sandbox.http, "k-1").json() == first.json()
    assert len(sandbox.mails) == 1


def test_a_key_is_forgotten_after_its_window(sandbox: Sandbox) -> None:
    agentmail(sandbox.http, "k-1")
    assert sandbox.http.delete("/sandbox/keys").json() == {"forgotten": 1}
    agentmail(sandbox.http, "k-1")
    assert len(sandbox.mails) == 2


def test_the_window_begins_with_completion() -> None:
    now = [1000.0]
    store = Store(key_window_s=100, clock=lambda: now[0])
    assert store.begin("k", "request") is None
    store.accept("agentmail", "/", "k", "request", b"", {"recipients": []})
    now[0] += 500  # under way all the time
    with pytest.raises(Conflict, match="under way"):
        store.begin("k", "request")
    store.complete("k")
    now[0] += 100
    assert store.begin("k", "request") is not None
    now[0] += 1
    assert store.begin("k", "another") is None


def test_a_request_that_failed_frees_its_key() -> None:
    store = Store()
    store.begin("k", "request")
    store.complete("k")
    assert store.begin("k", "another") is None


# ── Faults ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_status_accepts_nothing_and_strikes_once(sandbox: Sandbox) -> None:
    sandbox.faults({"status": 503, "retry_after": "7"})
    struck, plain = inboxili(sandbox.http), inboxili(sandbox.http)
    assert (struck.status_code, struck.headers["retry-after"], plain.status_code) == (503, "7", 200)
    assert len(sandbox.mails) == 1


def test_a_fault_knows_its_provider(sandbox: Sandbox) -> None:
    sandbox.faults({"provider": "inboxili", "status": 500})
    assert [agentmail(sandbox.http).status_code, inboxili(sandbox.http).status_code] == [200, 500]


def test_a_fault_can_be_aimed(sandbox: Sandbox) -> None:
    sandbox.faults({"match": "INV-2", "status": 500}, {"match": "sales%40", "status": 502})
    struck = [inboxili(sandbox.http, subject=f"INV-{n}").status_code for n in (1, 2, 2)]
    assert struck == [200, 500, 200]
    assert agentmail(sandbox.http, path=SEND.replace("support", "sales")).status_code == 502


def test_faults_strike_in_order_as_often_as_they_say(sandbox: Sandbox) -> None:
    sandbox.faults({"status": 500, "count": 2}, {"status": 429})
    assert [inboxili(sandbox.http).status_code for _ in range(4)] == [500, 500, 429, 200]


def test_put_replaces_post_adds_delete_clears(sandbox: Sandbox) -> None:
    sandbox.faults({"status": 500, "count": None})
    sandbox.faults({"status": 502, "count": None})
    sandbox.http.post("/sandbox/faults", json={"status": 504})
    assert sandbox.http.get("/sandbox/faults").json() == [
        {"status": 502, "count": None},
        {"status": 504, "count": 1},
    ]
    assert inboxili(sandbox.http).status_code == 502
    assert sandbox.http.delete("/sandbox/faults").json() == []
    assert inboxili(sandbox.http).status_code == 200


@pytest.mark.parametrize("form", [{"status": 500}, [{"status": 500}], {"faults": [{"status": 500}]}])
def test_faults_come_in_three_forms(sandbox: Sandbox, form: Any) -> None:
    assert sandbox.http.put("/sandbox/faults", json=form).json() == [{"status": 500, "count": 1}]


WRONG = [
    {"provider": "smtp", "at": "rcpt to"},
    {"provider": "mailera", "at": "mail"},
    {"at": "mail"},
    {"provider": "mailera", "state": "flying"},
    {"stat": 500},
    {"status": "500"},
    {"status": 42},
    {"provider": "postmark"},
    {"count": 0},
    {"rate": 2},
    {"delay_s": -1},
    {"retry_after": 3},
    "cut",
    [{"status": 500}, {"cut": 1}],
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_wrong_fault_is_refused_and_changes_nothing(sandbox: Sandbox, wrong: Any) -> None:
    sandbox.faults({"status": 502})
    answer = sandbox.http.put("/sandbox/faults", json=wrong)
    assert answer.status_code == 400
    assert "fault" in answer.json()["error"]
    assert sandbox.http.get("/sandbox/faults").json() == [{"status": 502, "count": 1}]


def test_what_is_no_json_is_refused(sandbox: Sandbox) -> None:
    assert sandbox.http.put("/sandbox/faults", content=b"cut").status_code == 400


CUTS = [({"cut": True}, 0), ({"cut": True, "accept": True}, 1), ({"silence": True, "silence_s": 0.05}, 0)]


@pytest.mark.parametrize(("fault", "accepted"), CUTS, ids=str)
def test_a_cut_line_is_cut_without_a_byte(sandbox: Sandbox, fault: dict[str, Any], accepted: int) -> None:
    sandbox.faults(fault)
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        inboxili(sandbox.http)
    assert len(sandbox.mails) == accepted
    assert len(sandbox.requests) == 1


def test_accept_then_silence_is_recorded_once(sandbox: Sandbox) -> None:
    sandbox.faults({"accept_then_silence": True})
    with pytest.raises(httpx.ReadTimeout):
        sandbox.http.post(
            SEND, json=MAIL, headers={"Authorization": "Bearer am-key", "Idempotency-Key": "k"}, timeout=0.3
        )
    (mail,) = sandbox.mails
    assert agentmail(sandbox.http, "k").json()["message_id"] == mail["message_id"]
    assert len(sandbox.mails) == 1


def test_a_request_is_noted_before_its_answer(sandbox: Sandbox) -> None:
    sandbox.faults({"delay_s": 1, "status": 500})
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(inboxili, sandbox.http)
        until(lambda: sandbox.requests, 40)
        assert not pending.done()
        assert pending.result().status_code == 500
    assert sandbox.mails == []


def test_a_status_may_hide_an_acceptance(sandbox: Sandbox) -> None:
    sandbox.faults({"status": 503, "accept": True})
    assert agentmail(sandbox.http, "k").status_code == 503
    assert agentmail(sandbox.http, "k").status_code == 200
    assert len(sandbox.mails) == 1


def test_a_body_can_be_anything(sandbox: Sandbox) -> None:
    sandbox.faults(
        {"body": "<h1>"}, {"body": [1]}, {"status": 422, "body": ""}, {"status": 422, "code": "send_failed"}
    )
    answers = [inboxili(sandbox.http) for _ in range(4)]
    assert [(a.status_code, a.text) for a in answers[:3]] == [(200, "<h1>"), (200, "[1]"), (422, "")]
    assert answers[3].json()["error"]["code"] == "send_failed"


def test_a_delay_delays(sandbox: Sandbox) -> None:
    sandbox.faults({"delay_s": 0.2, "status": 500})
    began = time.monotonic()
    assert inboxili(sandbox.http).status_code == 500
    assert time.monotonic() - began >= 0.2


def test_a_rate_strikes_by_chance_until_deleted() -> None:
    chances = iter([0.5, 0.02, 0.9, 0.0])
    faults = Faults(lambda: next(chances))
    faults.armed = parse({"rate": 0.03, "status": 500})
    assert [faults.take("inboxili", "/", b"") is not None for _ in range(4)] == [False, True, False, True]
    assert len(faults.armed) == 1


# ── For a person ──────────────────────────────────────────────────────────────────────────────────────


def test_the_log_shows_what_went_out_as_text(sandbox: Sandbox) -> None:
    inboxili(sandbox.http, subject="<script>alert(1)</script>", to='"><img src=x>@example.com')
    page = sandbox.http.get("/")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "<script" not in page.text
    assert "<img" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_the_log_answers_whether_it_went_out(sandbox: Sandbox) -> None:
    inboxili(sandbox.http)
    assert "1 of 1 accepted e-mails fit" in sandbox.http.get("/", params={"to": "receipt 7"}).text
    nothing = sandbox.http.get("/", params={"to": "<b>bo"}).text
    assert "did not go out" in nothing
    assert "<b>" not in nothing


# ── As a process ──────────────────────────────────────────────────────────────────────────────────────

CONFIG = """
[providers.agentmail]
kind = "agentmail"
key = "am"

[providers.inboxili]
kind = "inboxili"
key = "ix"
"""


SANDBOX = (sys.executable, "-m", "worker.sandbox")


def environment(home: Path, port: int, more: str = "") -> dict[str, str]:
    (home / "nottwice.toml").write_text(CONFIG + more)
    ours = {"NOTTWICE_HOME": str(home), "NOTTWICE_SANDBOX_PORT": str(port)}
    return os.environ | ours | {"NOTTWICE_SECRET_AM": "am-key", "NOTTWICE_SECRET_IX": "ix-key"}


@contextmanager
def process(home: Path, port: int, more: str = "") -> Iterator[tuple[starts.Running, httpx.Client]]:
    running = starts.start(SANDBOX, env=environment(home, port, more))
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=40, verify=NO_TLS
    ) as http:
        try:
            until(lambda: is_ready(http), 40)
            yield running, http
        finally:
            running.kill()
            running.wait(40)


def is_ready(http: httpx.Client) -> bool:
    try:
        return http.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def test_a_restart_keeps_mails_and_keys(tmp_path: Path, unused_port: int) -> None:
    port = unused_port
    with process(tmp_path, port) as (_, http):  # killed at the end
        first = agentmail(http, "k-1").json()
        inboxili(http)
        mails = http.get("/sandbox/mails").json()
    log = next((tmp_path / "sandbox").iterdir())
    log.write_bytes(log.read_bytes() + b'{"mail": {"time": "20')  # torn by a crash
    with process(tmp_path, port) as (_, http):
        assert http.get("/sandbox/mails").json() == mails
        assert agentmail(http, "k-1").json() == first
        assert agentmail(http, "k-1", text="another").status_code == 409
        agentmail(http, "k-2")
    with process(tmp_path, port) as (running, http):
        assert len(http.get("/sandbox/mails").json()) == 3
        running.terminate()
        assert running.wait(40) in (0, -15)


BOTH_NEW = """
[providers.mailera]
kind = "mailera"
base_url = "http://127.0.0.1:{sandbox_port}"
key = "ml"
[providers.smtp]
kind = "smtp"
base_url = "smtp://127.0.0.1:{sandbox_smtp_port}"
security = "plain"
"""


def test_its_mail_server_runs_beside_and_a_taken_port_ends_nothing(
    tmp_path: Path, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_SECRET_ML", "ml-key")
    (mail_port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", mail_port)):
        monkeypatch.setenv("NOTTWICE_SANDBOX_SMTP_PORT", str(mail_port))
        with process(tmp_path, unused_port, BOTH_NEW) as (_, http):
            send = {"to": ["ana@example.com"], "subject": "S"}
            sent = http.post("/mailboxes/in-1/send", json=send, headers=ML).json()
            assert http.get(f"/sends/{sent['id']}", headers=ML).json()["status"] in (
                "queued",
                "sending",
                "sent",
            )
    with process(tmp_path, unused_port, BOTH_NEW) as (_, http):
        with smtplib.SMTP("127.0.0.1", mail_port, "me.example", timeout=40) as post:
            post.sendmail("shop@example.com", ["bo@example.com"], "Subject: by post\n\nT")
        mails = http.get("/sandbox/mails").json()
        assert [(m["provider"], m["recipients"]) for m in mails] == [
            ("mailera", ["ana@example.com"]),
            ("smtp", ["bo@example.com"]),
        ]
        assert http.get(f"/sends/{sent['id']}", headers=ML).json()["status"] == "sent"


def test_it_listens_on_loopback_alone(tmp_path: Path, unused_port: int) -> None:
    with (
        process(tmp_path, unused_port),
        socket.create_server(("127.0.0.2", unused_port)),
    ):  # taken, were it all addresses
        pass


def test_a_port_in_use_is_one_sentence_and_code_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = starts.run(SANDBOX, env=environment(tmp_path, port), timeout=40)
    assert done.returncode == 2
    assert done.stderr == (
        f"sandbox: port {port} cannot be used (Address already in use). Choose another with NOTTWICE_SANDBOX_PORT.\n"
    )
