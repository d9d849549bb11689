"""Catch-up with real processes: killed, stopped, repeated, and what was answered is not answered again."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

import pytest

from ledger.simulated import simulate
from ledger.simulated.examples import message_received
from tests import starts
from tests.failures.house import CONFIG, WITHIN_S, House, until
from tests.fix_home import NOTTWICE
from tests.starts import Running

LINES = 650  # more than three batches


@dataclass(frozen=True)
class Done:
    exit_code: int
    output: str


CatchUp = Callable[..., Done]


def begun(
    chain: House, *arguments: str, **environment: str
) -> AbstractContextManager[tuple[Running, TextIO]]:
    """The command as a process, and what it says; it forks its own two processes (see `tests.starts`)."""
    return starts.telling([NOTTWICE, "catch-up", *arguments], env=chain.environment | environment)


@pytest.fixture
def catch_up(chain: House) -> CatchUp:
    """The command, to its end."""

    def run(*arguments: str, **environment: str) -> Done:
        with begun(chain, *arguments, **environment) as (process, said):
            output = said.read()
            return Done(process.wait(WITHIN_S), output)

    return run


@pytest.fixture
def file(chain: House) -> Path:
    path = chain.home / "events.jsonl"
    path.write_text("".join(json.dumps({"id": f"k{n}", "type": "order.placed"}) + "\n" for n in range(LINES)))
    return path


def events(chain: House) -> tuple[Any, ...]:
    return tuple(chain.rows("SELECT count(*), count(DISTINCT event_key) FROM nottwice.events")[0])


def test_a_file_that_was_stopped_twice_is_taken_in_whole_and_once(
    chain: House, catch_up: CatchUp, file: Path
) -> None:
    """Killed between a commit and the place that is kept after it; then a Ctrl-C in the middle of a commit."""
    killed = catch_up("shop", "--file", str(file), "--go", NOTTWICE_FAULT="receiver.after_commit=kill@2")
    assert killed.exit_code == 1 and "the same command goes on from there" in killed.output
    assert events(chain) == (400, 400)

    may_go = chain.home / "go"
    held = f"receiver.before_commit=file:{may_go}@2"
    with begun(chain, "shop", "--file", str(file), "--go", NOTTWICE_FAULT=held) as (process, told):
        assert '"receiver.before_commit"' in told.readline(), "the third batch waits for its commit"
        process.send_signal(signal.SIGINT)
        may_go.touch()
        said = told.read()
        assert process.wait(WITHIN_S) == 1, said
    assert "Went on after line 200." in said and "Stopped." in said, said

    whole = catch_up("shop", "--file", str(file), "--go")
    assert whole.exit_code == 0, whole.output
    assert "Went on after line 400." in whole.output and f"{LINES:,} lines" in whole.output
    assert events(chain) == (LINES, LINES)
    keys = chain.rows("SELECT event_key FROM nottwice.events ORDER BY id")
    assert [row.event_key for row in keys] == [f"order.placed k{n}" for n in range(LINES)], (
        "in the file's order"
    )


def test_bad_lines_are_named_and_stop_nobody(chain: House, catch_up: CatchUp) -> None:
    path = chain.home / "bad.jsonl"
    path.write_text('{"id": "a", "type": "t"}\nno json\n\n{"type": "t"}\n{"id": "a", "type": "t", "x": 1}\n')
    done = catch_up("shop", "--file", str(path), "--go")
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "line 2: nothing was stored of it: It is not JSON (character 0).",
        "line 4: to quarantine: It has no usable key.",
        "line 5: the key is known with other content; this one is kept as a conflict",
        f"Taken in: 4 lines of file {path} for shop: 1 new, 1 known with other content, "
        "1 without a usable key or shape, 1 unreadable.",
    ]


def test_what_cannot_begin_is_one_sentence(chain: House, catch_up: CatchUp, file: Path) -> None:
    for arguments, sentence in (
        (("nobody", "--file", str(file)), "There is no [sources.nobody]"),
        (("shop", "--file", str(file) + "x"), "cannot be read"),
        (("shop",), "Say where from"),
        (("shop", "--inbox", "a@acme.example", "--since", "2026-11-30"), "only AgentMail's messages"),
    ):
        done = catch_up(*arguments)
        assert done.exit_code == 2 and sentence in done.output and "Traceback" not in done.output, done.output


# ── From what AgentMail lists ─────────────────────────────────────────────────────────────────────────

INBOX = "support@acme.example"
MAIL = """
[sources.agentmail]
kind = "agentmail"
namespace = "acme"
secrets = ["agentmail-hook"]
"""
HANDLERS = '''
from ledger.records import Email
from worker.handlers import Handlers

handlers = Handlers()


@handlers.apply("agentmail", "message.received")
def answer(tx, event, propose):
    """A ticket and an e-mail for each message: what a second run would do again."""
    message = event.json()["message"]
    about = message["message_id"]
    tx.execute("INSERT INTO public.effects (event_key, run_by) VALUES (:key, 0)", key=about)
    email = Email(to=(message["from"],), subject="Re: Question", text="We have it.", inbox=message["inbox_id"])
    propose("answer", f"answer:{event.id}", email)  # by event, so that a second event would be a second e-mail
'''


@pytest.fixture
def mailed(chain: House, monkeypatch: pytest.MonkeyPatch) -> House:
    """A house with an inbox at the sandbox provider, which posts no webhooks."""
    secret = "whsec_bm90IHR3aWNlLCBhIHRlc3QncyBrZXk="
    chain.environment |= {"NOTTWICE_SECRET_AGENTMAIL_HOOK": secret}
    monkeypatch.setenv("NOTTWICE_SECRET_AGENTMAIL_HOOK", secret)
    config = CONFIG.replace('handlers = "house_handlers"', 'handlers = "mail_handlers"')
    (chain.home / "house.toml").write_text(config + MAIL)
    (chain.home / "mail_handlers.py").write_text(HANDLERS)
    chain.sandbox()
    tell(chain, "webhooks", {"mode": "off"}, method="PUT")
    return chain


def tell(chain: House, what: str, given: Any, *, method: str = "POST") -> None:
    url = f"http://127.0.0.1:{chain.environment['NOTTWICE_SANDBOX_PORT']}/sandbox/{what}"
    urllib.request.urlopen(
        urllib.request.Request(url, json.dumps(given).encode(), method=method), timeout=WITHIN_S
    ).close()


def arrive(chain: House, at: datetime, **changed: Any) -> tuple[str, bytes]:
    """A message at the inbox; its id, and what its webhook would say."""
    event = json.loads(message_received("ana@example.com", "Question", "Why?", INBOX))
    event["message"] |= {"timestamp": at.isoformat()} | changed
    tell(chain, "incoming", event)
    return event["message"]["message_id"], json.dumps(event).encode()


def sent(chain: House) -> int:
    return len(chain.mails() or [])


def test_a_catch_up_replay_of_an_answered_message(mailed: House, catch_up: CatchUp) -> None:
    """A duplicate; no second ticket, no second e-mail: replayed from the list, from a file, and by a late webhook."""
    now = datetime.now(UTC)
    mailed.receiver()
    mailed.worker()
    answered = arrive(mailed, now - timedelta(minutes=9))
    assert simulate.post(mailed.settings, "agentmail", answered[1], "msg_1") == 200
    until(lambda: sent(mailed) == 1)
    missed = [arrive(mailed, now - timedelta(minutes=m)) for m in (8, 7)]  # while no webhook came
    since = ("agentmail", "--inbox", INBOX, "--since", (now - timedelta(minutes=10)).isoformat())

    done = catch_up(*since, "--go")
    assert done.exit_code == 0 and "3 messages" in done.output, done.output
    assert "2 new, 1 known. (1 others are no incoming mail.)" in done.output
    until(lambda: sent(mailed) == 3)

    file = mailed.home / "replay.jsonl"
    file.write_bytes(b"".join(body + b"\n" for _, body in (answered, *missed)))
    assert "3 known." in catch_up("agentmail", "--file", str(file), "--go").output
    for _, body in missed:
        assert simulate.post(mailed.settings, "agentmail", body, "msg_late") == 200
    until(lambda: mailed.value("SELECT bool_and(state = 'completed') FROM nottwice.events"))
    until(lambda: mailed.value("SELECT bool_and(state = 'sent') FROM nottwice.actions"))
    assert events(mailed) == (3, 3) and mailed.value("SELECT count(*) FROM nottwice.conflicts") == 0
    tickets = [row.event_key for row in mailed.rows("SELECT event_key FROM public.effects ORDER BY id")]
    assert tickets == [answered[0], *(message_id for message_id, _ in missed)], (
        "in the order of their arrival"
    )
    assert sent(mailed) == len(mailed.requests() or []) == 3


def test_a_stopped_listing_goes_on_where_it_was_and_old_mail_is_refused_with_its_count(
    mailed: House, catch_up: CatchUp
) -> None:
    now = datetime.now(UTC)
    for minutes in (2, 1):
        arrive(mailed, now - timedelta(days=40, minutes=minutes))
    new = [arrive(mailed, now - timedelta(minutes=60 - m))[0] for m in range(25)]
    for minutes in (59.5, 36.5):  # one before the place of the stop, one after it
        arrive(mailed, now - timedelta(minutes=minutes), labels=["received", "spam"])
    inbox = ("agentmail", "--inbox", INBOX, "--go")
    since_new = (*inbox, "--since", (now - timedelta(hours=2)).isoformat())
    since_old = (*inbox, "--since", (now - timedelta(days=50)).isoformat())

    refused = catch_up(*since_old)
    assert refused.exit_code == 2 and "From before that: 2 messages." in refused.output
    assert (
        "2 would be new" in refused.output
        and "31 days" in refused.output
        and "not known: 2." in refused.output
    )
    assert events(mailed) == (0, 0)
    assert mailed.value("SELECT bool_and(ended_at IS NOT NULL) FROM nottwice.catch_ups"), (
        "nothing to go on with"
    )

    tell(
        mailed,
        "faults",
        {"reads": True, "match": quote(new[22], safe=""), "status": 401, "code": "unauthorized"},
    )
    stopped = catch_up(*since_new)
    assert stopped.exit_code == 1 and "does not take our API key" in stopped.output, stopped.output
    assert events(mailed) == (20, 20), "what was stored before is stored"
    assert ": 20 new. (1 others" in stopped.output and "20 messages" in stopped.output, stopped.output
    tell(mailed, "faults", {"reads": True, "status": 503})  # asked again, it answers
    whole = catch_up(*since_new)
    assert whole.exit_code == 0 and "Went on after the messages of" in whole.output, whole.output
    assert f"25 messages of inbox {INBOX} for agentmail: 25 new. (2 others" in whole.output, (
        "each counted once"
    )
    assert events(mailed) == (25, 25)
    keys = chain_of(mailed)
    assert keys == new, "oldest first"


def chain_of(chain: House) -> list[str]:
    sql = "SELECT event_key FROM nottwice.events ORDER BY id"
    return [row.event_key.removeprefix(f"listed message.received {INBOX} ") for row in chain.rows(sql)]
