"""Cases from the field about signatures and replay, as bytes over HTTP against a real receiver: SIG."""

from __future__ import annotations

import base64
import gzip
import hashlib
import signal
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import fix_receiver as fix
from tests.fix_receiver import Door, Receiver, Rows, Start

EVENT = b'{"id":"e1","type":"paid"}'
TOLERANCE_S = 300


def test_sig_01_a_multi_byte_body_verifies_on_the_bytes_received(door: Door) -> None:
    sent = [
        '{"n":"🎉"}'.encode(),
        b'{"n":"\\ud83c\\udf89"}',
        '{"n":"\u2028x"}'.encode(),
        '{"n":  "🎉"}'.encode(),
    ]
    for event, body in zip("abcd", sent, strict=True):
        assert door.receiver.plain(body, event) == 200
    assert [hashlib.sha256(kept).digest() for kept in door.bodies()] == [
        hashlib.sha256(body).digest() for body in sent
    ]
    crossed = door.receiver.post("plain", sent[1], fix.plain(sent[0], "e"))
    assert crossed.status_code == 401
    assert door.count("events") == 4


PACKED = gzip.compress(EVENT, mtime=0)
GZIP, FLAT = {"Content-Encoding": "gzip"}, zlib.compress(EVENT)


def test_sig_03_a_source_says_which_form_of_a_coded_body_is_signed(door: Door) -> None:
    """`packed` signs the plain bytes, `wired` those on the wire, `shop` says neither and gets nothing coded."""
    answers = {
        (source, name): door.receiver.post(source, PACKED, _signed(source, signed) | GZIP).status_code
        for source in ("packed", "wired", "shop")
        for name, signed in (("plain", EVENT), ("wire", PACKED))
    }
    assert answers == {
        ("packed", "plain"): 200,
        ("packed", "wire"): 401,
        ("wired", "plain"): 401,
        ("wired", "wire"): 200,
        ("shop", "plain"): 415,
        ("shop", "wire"): 415,
    }
    assert door.bodies() == [EVENT, EVENT]  # what is kept is what was said, not how it was packed


def _signed(source: str, signed: bytes) -> dict[str, str]:
    return fix.shop(signed) if source == "shop" else {"X-Signature": fix.signature(signed)}


CODED: list[tuple[bytes, bytes, dict[str, str], int]] = [
    (EVENT, EVENT, GZIP, 400),  # it says gzip, and is not
    (PACKED[:-9], EVENT, GZIP, 400),
    (PACKED + b"x", EVENT, GZIP, 400),
    (PACKED + PACKED, EVENT * 2, GZIP, 400),
    (b"", b"", GZIP, 400),
    (gzip.compress(b""), b"", GZIP, 400),
    (gzip.compress(b"{"), b"{", GZIP, 400),
    (FLAT, EVENT, GZIP, 400),
    (FLAT, EVENT, {"Content-Encoding": "deflate"}, 415),
    (PACKED, EVENT, {"Content-Encoding": "br"}, 415),
    (PACKED, EVENT, {"Content-Encoding": "zstd"}, 415),
    (gzip.compress(PACKED), EVENT, {"Content-Encoding": "gzip, gzip"}, 415),
    (PACKED, EVENT, {"Content-Encoding": "identity, gzip"}, 415),
    (PACKED, EVENT, {"Content-Encoding": "gzip\t;q=1"}, 415),
    (PACKED, EVENT, {"Content-Encoding": "GZip"}, 200),
    (PACKED, EVENT, {"Content-Encoding": "x-gzip"}, 200),
    (EVENT, EVENT, {"Content-Encoding": "identity"}, 200),
    (EVENT, EVENT, {"Content-Encoding": ""}, 200),
    (EVENT, EVENT, {}, 200),
    (PACKED, PACKED, {}, 400),  # coded, and it does not say so
]  # what is sent, what it is when it is inflated, how it says so, and the answer


def test_sig_03_every_coding_has_its_answer(door: Door) -> None:
    for body, plain, headers, status in CODED:
        for source, signed in (("packed", plain), ("wired", body)):
            answer = door.receiver.post(source, body, _signed(source, signed) | headers)
            assert answer.status_code == status, (source, headers, body[:20])
    assert door.bodies() == [EVENT] * 2  # the others were duplicates
    assert door.count("quarantine") == 0


def test_sig_03_a_bomb_takes_no_memory(door: Door) -> None:
    """One that inflates to 200 MB, a thousand times its size, which is as far as gzip goes; and one a byte over the limit."""
    limit = b'{"id":"large","type":"paid","pad":"%s"}' % (b"a" * (fix.LIMIT - 37))
    bomb, over = gzip.compress(bytes(200_000_000)), gzip.compress(limit + b" ")
    assert len(limit) == fix.LIMIT and len(bomb) < 200_000
    post = door.receiver.post
    assert post("packed", gzip.compress(limit), _signed("packed", limit) | GZIP).status_code == 200
    with fix.growth(door.receiver) as grown:
        for source, body, signed in (
            ("packed", bomb, b"any"),
            ("wired", bomb, bomb),
            ("packed", over, b"any"),
            ("wired", over, over),
        ):
            assert post(source, body, _signed(source, signed) | GZIP).status_code == 413
    assert grown.bytes < fix.LIMIT
    assert post("wired", bomb, _signed("wired", b"another") | GZIP).status_code == 401  # not even opened


def test_sig_03_a_coding_that_is_not_taken_is_refused_unread(door: Door) -> None:
    bomb = gzip.compress(bytes(20_000_000))
    for body, signed, coding in ((bomb, bomb, "gzip"), (EVENT, EVENT, "gzip"), (EVENT, EVENT, "br")):
        headers = {**fix.shop(signed), "Content-Encoding": coding}
        assert door.receiver.post("shop", body, headers).status_code == 415
    assert door.nothing_stored


# ── two active secrets during a rotation ──────────────────────────────────────────────────────────────

OLD, NEW = fix.OLD_SHOP_SECRET, fix.SHOP_SECRET
BOTH_HELD = 'secrets = ["SHOP", "SHOP_OLD"]'
OLD_HELD, NEW_HELD = 'secrets = ["SHOP_OLD"]', 'secrets = ["SHOP"]'


def test_sig_05_two_active_secrets_during_a_rotation(receivers: Start, rows: Rows) -> None:
    receiver = receivers(fix.CONFIG.replace(BOTH_HELD, OLD_HELD))
    with_traffic = _Traffic(receiver)

    def status(*secrets: str) -> int:
        return receiver.post("shop", EVENT, fix.shop(EVENT, *secrets)).status_code

    with with_traffic:
        assert (status(NEW, OLD), status(OLD), status(NEW)) == (202, 202, 401)
        with_traffic.until_more()
        _hold(receiver, BOTH_HELD)
        assert (status(OLD), status(NEW), status(NEW, OLD)) == (202, 202, 202)
        with_traffic.until_more()
        _hold(receiver, NEW_HELD)
        assert (status(OLD), status("bad", "bad"), status(NEW)) == (401, 401, 202)
        with_traffic.until_more()
    assert with_traffic.answers == [202] * len(with_traffic.answers)
    stored = rows("SELECT count(*) FROM nottwice.events WHERE event_key LIKE 't traffic%%'")
    assert stored == [(len(with_traffic.answers),)]


def _hold(receiver: Receiver, secrets: str) -> None:
    """A configuration with other secrets, without a restart."""
    before = len(receiver.notes("configuration read"))
    config = fix.CONFIG.replace(BOTH_HELD, secrets)
    Path(receiver.environment["NOTTWICE_CONFIG"]).write_text(config)
    receiver.process.send_signal(signal.SIGHUP)
    receiver.noted("configuration read", before + 1)


class _Traffic:
    """Twenty requests a second, signed with both secrets, as a provider signs during a rotation."""

    def __init__(self, receiver: Receiver) -> None:
        self.answers: list[int] = []
        self._port, self._ended = receiver.port, threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._ended.wait(0.05):
            body = b'{"id":"traffic %d","type":"t"}' % len(self.answers)
            self.answers.append(fix.quick_post(self._port, "shop", body, fix.shop(body, NEW, OLD)))

    def until_more(self) -> None:
        wanted, deadline = len(self.answers) + 6, time.monotonic() + fix.WITHIN_S
        while len(self.answers) < wanted:
            assert time.monotonic() < deadline, self.answers
            time.sleep(0.01)


def test_sig_05_svix_signs_twice_too(door: Door) -> None:
    body, gone = fix.message("evt_1"), "whsec_" + base64.b64encode(b"a secret that is not ours").decode()
    cases = [
        ((fix.OLD_SVIX_SECRET,), 200),
        ((gone, fix.SVIX_SECRET), 200),
        ((gone,), 401),
        ((gone, gone), 401),
    ]
    for secrets, status in cases:
        assert door.receiver.mail(body, *secrets) == status, secrets


# ── timestamps ────────────────────────────────────────────────────────────────────────────────────────

Sign = Callable[[str], tuple[bytes, dict[str, str]]]


def _mail(timestamp: str) -> tuple[bytes, dict[str, str]]:
    body = fix.message("evt_1")
    return body, fix.mail(body, timestamp=timestamp)


def _timed(timestamp: str) -> tuple[bytes, dict[str, str]]:
    return b'{"text":"hi"}', fix.timed(b'{"text":"hi"}', "n", timestamp=timestamp)


def _millis(timestamp: str) -> tuple[bytes, dict[str, str]]:
    return b'{"text":"hi"}', fix.millis(b'{"text":"hi"}', "n", timestamp=timestamp)


SOURCES: dict[str, tuple[Sign, int, int]] = {
    "mail": (_mail, 1, 200),
    "timed": (_timed, 1, 204),
    "millis": (_millis, 1000, 200),
}


class Clock:
    """A signer `shift_s` ahead of this machine, and a receiver that is to judge its timestamps."""

    def __init__(self, receiver: Receiver, source: str, shift_s: float = 0.0) -> None:
        self._receiver, self._source, self._shift_s = receiver, source, shift_s
        self._sign, self.unit, self.success = SOURCES[source]

    def now(self) -> float:
        return time.time() + self._shift_s

    def stamp(self, offset_s: int) -> str:
        return str(int((self.now() + offset_s) * self.unit))

    def status(self, timestamp: str) -> int:
        body, headers = self._sign(timestamp)
        return self._receiver.post(self._source, body, headers).status_code

    def status_at(self, offset_s: int) -> int:
        """Of a timestamp that was on the same side of the limit when it left and when its answer was here."""
        deadline = time.monotonic() + fix.WITHIN_S
        while time.monotonic() < deadline:
            timestamp = self.stamp(offset_s)
            before, status, after = self.now(), self.status(timestamp), self.now()
            if len({abs(at - int(timestamp) / self.unit) <= TOLERANCE_S for at in (before, after)}) == 1:
                return status
        pytest.fail("no request was answered quickly enough to be judged")

    def status_without(self) -> int:
        body, headers = self._sign(self.stamp(0))
        kept = {name: value for name, value in headers.items() if "timestamp" not in name.lower()}
        assert len(kept) == len(headers) - 1
        return self._receiver.post(self._source, body, kept).status_code


@pytest.mark.parametrize("source", SOURCES)
def test_sig_07_a_timestamp_has_a_unit_an_age_and_must_be_there(door: Door, source: str) -> None:
    """The whole window for a replay is twice the tolerance."""
    clock = Clock(door.receiver, source)
    _assert_the_window_of(clock)
    in_seconds, in_millis = str(int(clock.now())), str(int(clock.now() * 1000))
    assert clock.status(in_millis) == (clock.success if clock.unit == 1000 else 401)
    assert clock.status(in_seconds) == (clock.success if clock.unit == 1 else 401)
    for wrong in ("0", "hello", "", f"{in_seconds}.5", f"-{in_seconds}", f"+{in_seconds}"):
        assert clock.status(wrong) == 401, wrong
    assert clock.status_without() == 401


def _assert_the_window_of(clock: Clock) -> None:
    assert [clock.status_at(offset) for offset in (-299, 299)] == [clock.success] * 2
    assert [clock.status_at(offset) for offset in (-301, 301)] == [401] * 2


SHIFTED_CLOCK = """
import datetime, os, time

shift_s, real_time, real = float(os.environ["CLOCK_SHIFT_S"]), time.time, datetime.datetime


class Known(type(real)):
    def __instancecheck__(cls, value):
        return isinstance(value, real)


class Shifted(real, metaclass=Known):
    @classmethod
    def now(cls, tz=None):
        return real.now(tz) + datetime.timedelta(seconds=shift_s)


time.time = lambda: real_time() + shift_s
datetime.datetime = Shifted
"""


@pytest.mark.parametrize("shift_s", [3600, -3600])
def test_sig_07_the_clock_that_counts_is_the_receivers(
    receivers: Start, tmp_path: Path, shift_s: int
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SHIFTED_CLOCK)
    receiver = receivers(PYTHONPATH=str(tmp_path), CLOCK_SHIFT_S=str(shift_s))
    for source in SOURCES:
        _assert_the_window_of(Clock(receiver, source, shift_s))
        here = Clock(receiver, source)
        assert here.status(here.stamp(0)) == 401


# ── what a rejection says ─────────────────────────────────────────────────────────────────────────────


def test_sig_10_a_rejection_teaches_nothing(door: Door) -> None:
    marked = b'{"id":"marker-7391","type":"paid"}'
    stale = fix.timed(marked, "e", timestamp=str(int(time.time()) - 9999))
    post = door.receiver.post
    answers = [
        post("shop", marked, {"X-Shop-Signature": "v1=" + "0" * 64}),
        post("shop", marked, {}),
        post("timed", marked, stale),
        post("nobody", marked, fix.shop(marked)),
    ]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 404]
    assert len({answer.content for answer in answers}) == 1
    assert len({str(sorted(answer.headers)) for answer in answers}) == 1
    door.receiver.noted("refused", 3)
    said = door.receiver.said + "".join(f"{answer.headers}{answer.text}" for answer in answers)
    for word in (*fix.SECRETS.values(), *_spellings(marked), "marker-7391", stale["X-Signature"]):
        assert word not in said


def _spellings(body: bytes) -> list[str]:
    right = bytes.fromhex(fix.signature(body))
    return [
        right.hex(),
        right.hex().upper(),
        base64.b64encode(right).decode(),
        base64.urlsafe_b64encode(right).decode(),
    ]


# ── an empty body ─────────────────────────────────────────────────────────────────────────────────────

FRAMINGS = {
    "a length of 0": b"Content-Length: 0\r\n\r\n",
    "no length": b"\r\n",
    "no chunk": b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=list(FRAMINGS))
def test_sig_12_an_empty_body_is_no_event(door: Door, framing: bytes) -> None:
    for source, right, wrong in (
        ("shop", fix.shop(b""), fix.shop(b"x")),
        ("plain", fix.plain(b""), fix.plain(b"x")),
        ("timed", fix.timed(b"", "e"), fix.timed(b"x", "e")),
        ("mail", fix.mail(b""), fix.mail(b"x")),
    ):
        assert _status(door.receiver, source, right, framing) == 400
        assert _status(door.receiver, source, wrong, framing) == 401
    assert door.nothing_stored


def _status(receiver: Receiver, source: str, headers: dict[str, str], rest: bytes) -> int:
    head = fix.head(headers, source=source).removesuffix(b"\r\n")
    return int(receiver.raw(head + rest).split()[1])
