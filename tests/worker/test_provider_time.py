"""A call has one deadline, whatever the other side does; Retry-After is read and never slept."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from ledger.database import Database
from ledger.errors import CallInsideTransaction
from ledger.records import NotSent, Unknown
from tests.fix_sandbox import RawServer, Sandbox, Script, until
from tests.worker.calls import EACH, SLOW, full_backlog, outcome_at
from worker.providers import wire
from worker.providers.outcomes import RETRY_AFTER_S_MAX, retry_after_s


@pytest.fixture
def late_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = wire.Line.cut

    def late(line: wire.Line) -> bool:
        time.sleep(0.3)  # longer than the call: a bound of its own length would have passed
        return cut(line)

    monkeypatch.setattr(wire.Line, "cut", late)


@EACH
@pytest.mark.parametrize("case", SLOW)
def test_the_deadline_is_total(raw_server: Callable[[Script], RawServer], kind: str, case: str) -> None:
    server = raw_server(SLOW[case])
    began = time.monotonic()
    outcome = outcome_at(kind, server.url, 0.4)
    assert time.monotonic() - began < 6
    assert isinstance(outcome, Unknown)
    assert len(server.requests) == 1
    until(lambda: not [t for t in threading.enumerate() if t.name == "provider-call"], 40)


@EACH
def test_nobody_but_the_deadline_ends_a_silent_call(
    raw_server: Callable[[Script], RawServer], kind: str, late_cut: None
) -> None:
    """On a busy machine the cut comes late; a read of a package must not have said something else by then."""
    assert outcome_at(kind, raw_server(SLOW["silence"]).url, 0.2).code == "deadline"


@EACH
def test_a_connection_that_never_stands_is_not_sent(kind: str) -> None:
    with full_backlog() as url:
        outcome = outcome_at(kind, url, 0.6)
    assert isinstance(outcome, NotSent)
    assert outcome.pauses


@EACH
def test_a_refused_connection_is_not_sent(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    outcome = outcome_at(kind, f"http://127.0.0.1:{port}")
    assert isinstance(outcome, NotSent)
    assert outcome.pauses


@EACH
def test_an_unknown_host_is_not_sent(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    outcome = outcome_at(kind, "http://nowhere.invalid")
    assert isinstance(outcome, NotSent)
    assert outcome.pauses


@EACH
def test_a_failed_tls_handshake_is_not_sent(raw_server: Callable[[Script], RawServer], kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True).start()
        outcome = outcome_at(kind, f"https://127.0.0.1:{listener.getsockname()[1]}")
    assert isinstance(outcome, NotSent)
    assert outcome.pauses


@EACH
def test_a_name_that_takes_for_ever_to_look_up_is_not_sent(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up cannot be bounded; the call can, and after its end nothing is sent any more."""
    looked_up, server = threading.Event(), socket.create_server(("127.0.0.1", 0))
    real = socket.getaddrinfo

    def slow(host: Any, *rest: Any, **named: Any) -> Any:
        looked_up.wait(10)
        return real("127.0.0.1", *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with server:
        outcome = outcome_at(kind, f"http://127.0.0.1:{server.getsockname()[1]}", 0.3)
        looked_up.set()
        connection = server.accept()[0]
        connection.settimeout(5)
        assert connection.recv(1) == b""  # it connects at last, and hangs up without a byte
        connection.close()
    assert isinstance(outcome, NotSent)
    assert outcome.code == "deadline"


@EACH
def test_no_call_inside_a_transaction(sandbox: Sandbox, database: Database, kind: str) -> None:
    with database.transaction(), pytest.raises(CallInsideTransaction):
        outcome_at(kind, sandbox.url)
    assert sandbox.requests == []


NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SND_08: dict[str, float | None] = {
    "3": 3.0,
    " 3 ": 3.0,
    "0": 1.0,
    "1.5": 1.5,
    "-5": None,
    "9999999999": RETRY_AFTER_S_MAX,
    "9" * 5000: RETRY_AFTER_S_MAX,
    "soon": None,
    "": None,
    "nan": None,
    "inf": None,
    "1_0": None,
    "٣": None,
    "Mon, 30 Nov 2026 12:00:05 GMT": 5.0,
    "Mon, 30 Nov 2026 14:00:05 +0200": 5.0,
    "Monday, 30-Nov-26 12:00:05 GMT": 5.0,
    "Mon, 30 Nov 2026 11:00:00 GMT": None,
    "Mon, 30 Nov 9999 12:00:00 GMT": RETRY_AFTER_S_MAX,
    "Mon, 99 Nov 99999 12:00:00 GMT": None,
}


@pytest.mark.parametrize("spelling", SND_08, ids=lambda s: s[:30] or "blank")
def test_snd_08_retry_after_in_every_spelling(spelling: str) -> None:
    assert retry_after_s(spelling, NOW) == SND_08[spelling]


def test_snd_08_absent_is_the_normal_backoff() -> None:
    assert retry_after_s(None, NOW) is None


@EACH
def test_snd_08_is_read_from_the_wire_and_never_slept(sandbox: Sandbox, kind: str) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=300), usegmt=True)
    for spelling, low, high in (("7", 7, 7), (date, 290, 300)):
        sandbox.faults({"status": 429, "retry_after": spelling})
        began = time.monotonic()
        outcome = outcome_at(kind, sandbox.url)
        assert time.monotonic() - began < 6  # 7 s, had it waited
        assert isinstance(outcome, NotSent)
        assert outcome.retry_after_s is not None
        assert low <= outcome.retry_after_s <= high
    assert len(sandbox.requests) == 2


@EACH
def test_snd_08_every_spelling_is_read_from_the_wire(sandbox: Sandbox, kind: str) -> None:
    spellings = {s: wait_s for s, wait_s in SND_08.items() if s.isascii() and len(s) < 100 and "Nov" not in s}
    sandbox.faults(*({"status": 429, "retry_after": spelling or " "} for spelling in spellings))
    for spelling, wait_s in spellings.items():
        outcome = outcome_at(kind, sandbox.url)
        assert isinstance(outcome, NotSent)
        assert (spelling, outcome.retry_after_s) == (spelling, wait_s)
