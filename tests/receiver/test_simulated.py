"""What `nottwice simulate` posts, a real receiver accepts: once an event, whatever the source's settings are."""

from __future__ import annotations

import pytest

from ledger.settings import Settings, load
from ledger.simulated import simulate
from tests import fix_receiver as fix
from tests.fix_receiver import Receiver, Rows, Start

GENERIC = 'kind = "generic"\nnamespace = "{name}"\nsecrets = ["SHOP"]\nsignature_header = "X-Sig"\n'
SOURCES = {
    "bare": 'key_path = "id"\ntype_path = "type"',
    "stamped": 'timestamp_header = "X-Time"\nkey_path = "id"\ntype_path = "type"\ntime_path = "created"',
    "in_millis": 'timestamp_header = "X-Time"\ntimestamp_unit = "ms"\nkey_path = "id"\ntype_path = "type"\ntolerance_s = 60',
    "templated": 'timestamp_header = "X-Time"\nsigned = "v0:{timestamp}:{body}:end"\nkey_path = "id"\ntype_path = "type"',
    "turned_round": 'timestamp_header = "X-Time"\nsigned = "{body}|{timestamp}"\nkey_path = "id"\ntype_path = "type"',
    "in_base64": 'encoding = "base64"\nsignature_prefix = "sha256="\nkey_path = "id"\ntype_path = "type"',
    "by_header": 'key_header = "X-Key"\ntype_header = "X-Type"\ndelivery_header = "X-Delivery"',
    "of_one_type": 'key_path = "id"\ntype_constant = "paid"',
    "composite": 'key_path = "data.object.id"\nkey_with = ["data.part", "invoice.number", "at"]\ntype_path = "meta.type"',
    "by_number": 'key_path = "events.0.id"\nkey_with = ["events.0.to"]\ntype_path = "events.0.type"',
    "overlapping": 'key_path = "id"\nkey_with = ["type", "created"]\ntype_path = "type"\ntime_path = "created"',
    "of_no_content": 'key_path = "id"\ntype_path = "type"\nsuccess_status = 204',
}
OTHERS = """
[sources.mail]
kind = "agentmail"
namespace = "mail"
secrets = ["MAIL", "MAIL_OLD"]

[sources.notices]
kind = "inboxili"
namespace = "notices"
secrets = ["SHOP"]

[database]
allow_unsafe = true
"""
CONFIG = (
    "".join(f"[sources.{name}]\n{GENERIC.format(name=name)}{rest}\n\n" for name, rest in SOURCES.items())
    + OTHERS
)


@pytest.fixture
def listening(receivers: Start, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a receiver with all of them."""
    return _as_configured(receivers(CONFIG), monkeypatch)


def _as_configured(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in receiver.environment.items():
        if name.startswith("NOTTWICE_"):
            monkeypatch.setenv(name, value)
    return load()


def test_every_configured_source_accepts_what_is_simulated(listening: Settings, rows: Rows) -> None:
    for name in (*SOURCES, "mail", "notices"):
        status = 204 if name == "of_no_content" else 200
        said = simulate.send(listening, name, copies=3, burst=2)
        assert said == f"2 events of {name}, delivered 3 × each: the receiver answered 6 × {status}."
    expected = sorted((name, 2) for name in (*SOURCES, "mail", "notices"))
    assert rows("SELECT source, count(*) FROM nottwice.events GROUP BY 1 ORDER BY 1") == expected
    assert rows("SELECT count(*) FROM nottwice.quarantine") == [(0,)]
    assert rows("SELECT count(*) FROM nottwice.conflicts") == [(0,)]
    assert rows("SELECT sum(deliveries) FROM nottwice.duplicates") == [(4 * len(expected),)]


def test_a_receiver_is_found_where_it_listens(receivers: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("127.0.0.2", "0.0.0.0"):
        config = f'{CONFIG}\n[receiver]\nhost = "{host}"\n'
        receiver = receivers(config, host="127.0.0.2" if host == "127.0.0.2" else "127.0.0.1")
        settings = _as_configured(receiver, monkeypatch)
        assert "1 × 200" in simulate.send(settings, "bare"), host
        receiver.stop()


def test_a_secret_that_was_changed_is_what_the_answer_says(
    listening: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_SECRET_SHOP", fix.OLD_SHOP_SECRET)
    assert "answered 1 × 401" in simulate.send(load(), "bare")
