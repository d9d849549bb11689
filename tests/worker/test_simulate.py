"""What `nottwice simulate` posts is what the providers would post: verified by their own verifier, and by theirs' vectors."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from svix.webhooks import Webhook, WebhookVerificationError

from ledger import payload
from ledger.errors import Misconfigured, Unavailable
from ledger.settings import Settings, SourceSettings, load
from ledger.simulated import Sending, configured, simulate
from tests.fix_sandbox import RawServer, Script

SVIX_SECRET = "whsec_" + base64.b64encode(b"twenty-four secret bytes").decode()
CONFIG = """
[sources.agentmail]
kind = "agentmail"
secrets = ["mail"]

[sources.shop]
kind = "generic"
secrets = ["shop"]
signature_header = "X-Shop-Signature"
signature_prefix = "sha256="
delivery_header = "X-Shop-Delivery"
key_path = "data.id"
type_path = "type"
"""


def created(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Settings]:
    monkeypatch.setenv("NOTTWICE_SECRET_MAIL", SVIX_SECRET)
    monkeypatch.setenv("NOTTWICE_SECRET_SHOP", "It's a Secret to Everybody")
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    (tmp_path / "nottwice.toml").write_text(CONFIG)

    def at(port: int) -> Settings:
        monkeypatch.setenv("NOTTWICE_RECEIVER_PORT", str(port))
        return load()

    return at


def port_of(server: RawServer) -> int:
    return int(server.url.rpartition(":")[2])


def received(raw: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = raw.partition(b"\r\n\r\n")
    target, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return target, headers, body


def test_agentmail_is_signed_as_svix_verifies(
    raw_server: Callable[[Script], RawServer], settings: Callable[[int], Settings]
) -> None:
    server = raw_server(created)
    said = simulate.send(settings(port_of(server)), "agentmail", copies=3, burst=2)
    assert said == "2 events of agentmail, delivered 3 × each: the receiver answered 6 × 202."
    bodies: Counter[bytes] = Counter()
    for raw in server.requests:
        target, headers, body = received(raw)
        assert target == "POST /webhooks/agentmail HTTP/1.1"
        Webhook(SVIX_SECRET).verify(body, headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(SVIX_SECRET).verify(body + b" ", headers)
        bodies[body] += 1
    assert sorted(bodies.values()) == [3, 3]
    ids = {received(raw)[1]["svix-id"] for raw in server.requests}
    assert len(ids) == 2  # copies of one event are retries of one delivery
    events = [json.loads(body) for body in bodies]
    assert len({event["event_id"] for event in events}) == 2
    assert {event["event_type"] for event in events} == {"message.received"}


def test_a_generic_source_is_signed_as_configured(
    raw_server: Callable[[Script], RawServer], settings: Callable[[int], Settings]
) -> None:
    server = raw_server(created)
    simulate.send(settings(port_of(server)), "shop")
    (raw,) = server.requests
    _, headers, body = received(raw)
    mac = hmac.new(b"It's a Secret to Everybody", body, hashlib.sha256).hexdigest()
    assert headers["x-shop-signature"] == f"sha256={mac}"
    assert headers["x-shop-delivery"]
    event = json.loads(body)
    assert event["data"]["id"]
    assert event["type"] == "invoice.paid"


def generic(**options: Any) -> SourceSettings:
    return SourceSettings(kind="generic", secrets=("s",), signature_header="X-Hub-Signature-256", **options)


def test_a_published_vector() -> None:
    """GitHub's documentation, "Validating webhook deliveries"."""
    source = generic(signature_prefix="sha256=", key_header="X-GitHub-Delivery")
    headers = configured.headers(source, Sending("It's a Secret to Everybody", "d", 0), b"Hello, World!")
    assert headers["X-Hub-Signature-256"] == (
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    )


FORMS: list[tuple[dict[str, Any], bytes, dict[str, str]]] = [
    ({"timestamp_header": "T"}, b"1700000000.BODY", {"T": "1700000000"}),
    ({"timestamp_header": "T", "timestamp_unit": "ms"}, b"1700000000000.BODY", {"T": "1700000000000"}),
    (
        {"timestamp_header": "T", "signed": "v0:{timestamp}:{body}:end"},
        b"v0:1700000000:BODY:end",
        {"T": "1700000000"},
    ),
    ({"encoding": "base64"}, b"BODY", {}),
    ({"key_header": "K", "type_header": "Y"}, b"BODY", {"Y": "invoice.paid"}),
]


@pytest.mark.parametrize(("options", "signed", "headers"), FORMS, ids=range(len(FORMS)))
def test_every_form_of_a_generic_source(
    options: dict[str, Any], signed: bytes, headers: dict[str, str]
) -> None:
    source = generic(**({} if "key_header" in options else {"key_path": "id"}), **options)
    made = configured.headers(source, Sending("secret", "d", 1_700_000_000), b"BODY")
    mac = hmac.new(b"secret", signed, hashlib.sha256).digest()
    wanted = base64.b64encode(mac).decode() if source.encoding == "base64" else mac.hex()
    assert made["X-Hub-Signature-256"] == wanted
    assert headers.items() <= made.items()
    assert "" not in made


PATHS = [
    {"key_path": "id", "type_path": "type", "time_path": "created"},
    {
        "key_path": "data.object.id",
        "type_path": "meta.type",
        "time_path": "meta.at",
        "key_with": ("data.object.part",),
    },
    {"key_path": "id.x", "type_path": "type.y"},
    {"key_header": "X-Key", "type_header": "X-Type"},
]


@pytest.mark.parametrize("options", PATHS, ids=range(len(PATHS)))
def test_an_example_has_what_the_source_looks_for(options: dict[str, Any]) -> None:
    source = generic(**options)
    first, second = (payload.parse(configured.example(source, "s", number)) for number in (1, 2))
    for path in filter(None, (source.key_path, source.type_path, source.time_path, *source.key_with)):
        assert isinstance(payload.look_up(first, path), str)
    if source.key_path:
        assert payload.look_up(first, source.key_path) != payload.look_up(second, source.key_path)


def test_an_unknown_source_is_named(settings: Callable[[int], Settings]) -> None:
    with pytest.raises(Misconfigured, match=r"no \[sources.stripe\].*agentmail, shop"):
        simulate.send(settings(1), "stripe")


def test_without_a_receiver_it_says_so(settings: Callable[[int], Settings], unused_port: int) -> None:
    with pytest.raises(Unavailable, match=f"port {unused_port}.*nottwice up"):
        simulate.send(settings(unused_port), "shop")


def test_a_file_is_delivered_byte_for_byte(
    raw_server: Callable[[Script], RawServer], settings: Callable[[int], Settings], tmp_path: Path
) -> None:
    server, file = raw_server(created), tmp_path / "event.json"
    file.write_bytes(b'{"id" : "\xf0\x9f\x8e\x89"}\n')
    said = simulate.send(settings(port_of(server)), "shop", copies=2, file=file)
    assert said == "1 event of shop, delivered 2 × each: the receiver answered 2 × 202."
    assert [received(raw)[2] for raw in server.requests] == [file.read_bytes()] * 2


def test_a_file_that_is_not_there_and_a_burst_of_one_file_are_refused(
    settings: Callable[[int], Settings], tmp_path: Path
) -> None:
    for burst, path, words in (
        (1, tmp_path / "none", "cannot be read: No such file"),
        (2, tmp_path, "one event"),
    ):
        with pytest.raises(Misconfigured, match=words):
            simulate.send(settings(1), "shop", burst=burst, file=path)
