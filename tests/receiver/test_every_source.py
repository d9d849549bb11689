"""Every kind of source through one real receiver: accepted once, forged, malformed, without an event."""

from __future__ import annotations

import re
import time
import tomllib
from importlib.resources import files

import pytest

from ledger.environment import secret_variable
from ledger.receiver.sources import kinds
from ledger.settings import Settings, load
from ledger.simulated import Sending, simulate, speaker
from tests import fix_sources
from tests.fix_receiver import Rows, Start

UNPUBLISHED = {"mailera", "message.com"}  # off until configured


@pytest.fixture
def listening(receivers: Start, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a receiver with a source of every kind."""
    for name, value in receivers(fix_sources.CONFIG).environment.items():
        if name.startswith("NOTTWICE_"):
            monkeypatch.setenv(name, value)
    return load()


def test_there_is_one_of_every_kind() -> None:
    assert set(fix_sources.OPTIONS) == set(kinds())


def test_every_source_accepts_once_what_its_provider_posts(listening: Settings, rows: Rows) -> None:
    for kind, adapter in kinds().items():
        said = simulate.send(listening, fix_sources.name(kind), copies=3, burst=2)
        success = adapter.facts.success
        assert said.endswith(f"delivered 3 × each: the receiver answered 6 × {success}."), (kind, said)
    names = sorted(map(fix_sources.name, kinds()))
    assert rows("SELECT source, count(*) FROM nottwice.events GROUP BY 1 ORDER BY 1") == [
        (n, 2) for n in names
    ]
    assert rows("SELECT count(*) FROM nottwice.quarantine") == [(0,)]
    assert rows("SELECT count(*) FROM nottwice.conflicts") == [(0,)]
    assert rows("SELECT sum(deliveries) FROM nottwice.duplicates") == [(4 * len(names),)]


def test_the_demo_serves_every_kind_whose_contract_is_known(
    receivers: Start, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With secrets from the environment, as for somebody who points a provider at it."""
    demo = files("worker.sandbox").joinpath("demo.toml").read_text("utf-8")
    tables = tomllib.loads(demo)["sources"]
    secrets = {
        secret_variable(table["secrets"][0]): fix_sources.secret(table["kind"]) for table in tables.values()
    }
    for name, value in receivers(demo + fix_sources.UNSAFE, **secrets).environment.items():
        if name.startswith("NOTTWICE_"):
            monkeypatch.setenv(name, value)
    for name in tables:
        said = simulate.send(load(), name, copies=2)
        assert re.search(r"answered 2 × 20[02]\.$", said), said
    assert {table["kind"] for table in tables.values()} == set(kinds()) - UNPUBLISHED
    assert rows("SELECT count(*) FROM nottwice.events") == [(len(tables),)]


MALFORMED = [b"{", b"", b"\xff\xfe{}", b'{"a":NaN}', b'{"a":1,"a":2}', b"[" * 70]
WITHOUT_AN_EVENT = [b"{}", b"null", b"42", b'"x"', b"[[]]", b'{"value":[]}']


def test_no_body_makes_a_fault_and_no_forgery_gets_in(listening: Settings, rows: Rows) -> None:
    for kind, adapter in kinds().items():
        assert _status(listening, kind, b"[]") == adapter.facts.success or kind == "microsoft-graph", kind
    assert rows("SELECT count(*) FROM nottwice.quarantine") == [(0,)], "an empty list is a ping"
    for kind, adapter in kinds().items():
        for body in (*MALFORMED, *WITHOUT_AN_EVENT):
            assert _status(listening, kind, body) in (200, 202, 204, 400, 401), (kind, body)
        for body in MALFORMED:
            assert _status(listening, kind, body) in (400, 401), (kind, body)
        event, other = _event(listening, kind), fix_sources.other_secret(kind)
        if not adapter.facts.signature.startswith("none"):
            assert _status(listening, kind, event + b" ", signed=event) == 401, kind
        assert _status(listening, kind, _event(listening, kind, other), secret=other) == 401, kind
    stored = rows("SELECT DISTINCT source FROM nottwice.events ORDER BY 1")
    assert stored == [("github",), ("shopify",)], "an empty object is an event where the ids stand in headers"


def _event(settings: Settings, kind: str, secret: str | None = None) -> bytes:
    source = settings.sources[fix_sources.name(kind)]
    return speaker(source).example(source, secret or fix_sources.secret(kind), 1)


def _status(
    settings: Settings, kind: str, body: bytes, *, signed: bytes | None = None, secret: str | None = None
) -> int:
    source = settings.sources[fix_sources.name(kind)]
    sending = Sending(secret or fix_sources.secret(kind), "d1", int(time.time()))
    headers = speaker(source).headers(source, sending, body if signed is None else signed)
    return simulate.post(settings, fix_sources.name(kind), body, "d1", headers)
