"""Cases from the field about HTTP: framing, methods, paths, and which trouble is whose: HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from ledger.embedded import Cluster
from tests import fix_receiver as fix
from tests.fix_receiver import Door, Receiver, Start, until

EVENT = b'{"id":"e1","type":"paid"}'
WINDOW_S = 10.0  # the strictest provider hangs up then


def test_http_01_a_chunked_body_is_verified_and_stored_whole(door: Door) -> None:
    body = '{"id":"c1","type":"paid","n":"🎉"}'.encode()
    cut = body.index("🎉".encode()) + 2  # inside a character
    chunks = [body[:10], body[10:cut], body[cut:]]
    pieces = [f"{len(chunk):x};ext=1\r\n".encode() + chunk + b"\r\n" for chunk in chunks]
    pieces.append(b"0\r\nX-Trailer: 1\r\n\r\n")
    chunked = "Transfer-Encoding: chunked"
    assert door.receiver.raw(fix.head(fix.shop(body), chunked), *pieces).split()[1] == b"202"
    assert door.bodies() == [body]
    assert door.receiver.raw(fix.head(fix.shop(body + b" "), chunked), *pieces).split()[1] == b"401"
    assert door.receiver.raw(fix.head(fix.shop(body), chunked) + b"".join(pieces)).split()[1] == b"202"
    assert door.count("events") == 1


def test_http_05_the_media_type_does_not_decide(door: Door) -> None:
    media_types = [
        "application/json; charset=utf-8",
        "text/plain",
        "application/vnd.x+json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "nonsense",
        None,
    ]
    for number, media_type in enumerate(media_types):
        body = b'{"id":%d,"type":"paid"}' % number
        headers = fix.shop(body) | ({"Content-Type": media_type} if media_type else {})
        assert door.receiver.post("shop", body, headers).status_code == 202
        assert door.receiver.post("shop", body + b" ", headers).status_code == 401
    kept = door.rows("SELECT content_type FROM nottwice.event_contents ORDER BY event_id")
    assert [text for (text,) in kept] == [media_type or "" for media_type in media_types]


def test_http_05_methods_paths_and_handshakes(door: Door) -> None:
    client, signed = door.receiver.client, fix.shop(EVENT)
    assert client.post("/webhooks/shop/", content=EVENT, headers=signed).status_code == 202
    for source in ("shop", "nobody"):  # so a method tells nobody which sources exist
        for method in ("HEAD", "GET", "PUT", "DELETE", "OPTIONS", "PATCH"):
            refused = client.request(method, f"/webhooks/{source}", params={"validationToken": "<b>x</b>"})
            assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
            assert "<b>" not in refused.text
    for path in ("nobody", "SHOP", "%00", "..%2Fshop", "", "shop/more", "%F0%9F%8E%89"):
        refused = client.post(f"/webhooks/{path}", content=EVENT, headers=signed)
        assert (refused.status_code, refused.text) == (404, "not accepted\n"), path
    assert door.count("events") == 1


# ── whose trouble it is ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def own(own_cluster: Cluster, receivers: Start) -> Receiver:
    limits = "[receiver]\nanswer_within_s = 1.0\n"
    return receivers(fix.CONFIG + limits, DATABASE_URL=own_cluster.url("nottwice_receiver"))


def test_http_06_temporary_trouble_is_503_and_the_repeat_is_stored_once(
    own: Receiver, own_cluster: Cluster
) -> None:
    for number, (begin, end) in enumerate(TROUBLES):
        body = b'{"id":%d,"type":"paid"}' % number
        begin(own_cluster)
        started = time.monotonic()
        refused = own.post("shop", body, fix.shop(body))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5"), begin
        assert time.monotonic() - started < WINDOW_S
        assert own.shop(b'{"type":"paid"', X_Note="a bad one is bad whatever the database does") == 400
        end(own_cluster)
        own.until("/readyz", 200)
        key = f"paid {number}"
        assert _ask(own_cluster, "SELECT count(*) FROM nottwice.events WHERE event_key = %s", key) == [(0,)]
        until(lambda: own.shop(body) == 202)  # noqa: B023
        until(lambda: own.shop(body) == 202)  # noqa: B023
        assert _ask(own_cluster, "SELECT count(*) FROM nottwice.events WHERE event_key = %s", key) == [(1,)]


def _ask(server: Cluster, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    url = sa.make_url(server.url())
    with psycopg.connect(
        host=str(url.query["host"]), port=5432, user="postgres", dbname=url.database, autocommit=True
    ) as admin:
        cursor = admin.execute(sql.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def _refuse_connections(server: Cluster) -> None:
    """As a full pool or server does."""
    _ask(server, "ALTER ROLE nottwice_receiver CONNECTION LIMIT 0")
    _ask(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'nottwice_receiver'")


def _trigger(what: str) -> Callable[[Cluster], Any]:
    sql = f"""
        CREATE OR REPLACE FUNCTION nottwice.trouble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {what}; END $$;
        CREATE TRIGGER trouble BEFORE INSERT ON nottwice.events FOR EACH ROW EXECUTE FUNCTION nottwice.trouble()"""
    return lambda server: _ask(server, sql)


def _no_trigger(server: Cluster) -> None:
    _ask(server, "DROP TRIGGER trouble ON nottwice.events")


TROUBLES: list[tuple[Callable[[Cluster], Any], Callable[[Cluster], Any]]] = [
    (Cluster.stop, Cluster.ensure),
    (_refuse_connections, lambda server: _ask(server, "ALTER ROLE nottwice_receiver CONNECTION LIMIT -1")),
    (_trigger("RAISE 'no space left' USING errcode = '53100'"), _no_trigger),
    (_trigger("PERFORM pg_sleep(5); RETURN NEW"), _no_trigger),
]


def test_http_06_permanent_trouble_is_4xx_or_quarantined(door: Door) -> None:
    """The rule: not a document 400; a document that can be no event, the source's success code and quarantine."""
    for _ in range(2):
        assert door.receiver.shop(b'{"type":"paid"') == 400
        assert door.receiver.shop(b'{"type":"paid"}') == 202
    assert door.count("events") == 0
    assert door.rows("SELECT body, deliveries FROM nottwice.quarantine") == [(b'{"type":"paid"}', 2)]
