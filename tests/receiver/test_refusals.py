"""What is turned away is counted by source and reason, at the price of one small transaction a second."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from ledger import workers
from ledger.database import Database
from ledger.figures import refusals
from ledger.figures.refusals import Refusal
from tests import fix_receiver as fix
from tests.fix_receiver import Rows, Start, until

EVENT = b'{"id":"e1","type":"paid"}'
QUICK = fix.CONFIG + "[receiver]\nbeat_s = 0.1\nin_hand_bytes_max = 400000\nbody_bytes_max = 300000\n"


def counted(rows: Rows) -> dict[tuple[str, str], int]:
    found = rows("SELECT source, reason, CAST(sum(n) AS integer) FROM nottwice.refusals GROUP BY 1, 2")
    return {(source, reason): n for source, reason, n in found}


def test_each_refusal_is_counted_under_its_source_and_reason(receivers: Start, rows: Rows) -> None:
    """Two receivers: what is to be too slow meets one that waits hardly at all."""
    receiver, hasty = receivers(QUICK), receivers(QUICK + "answer_within_s = 0.4\nhead_within_s = 0.3\n")
    post, raw, signed = receiver.post, receiver.raw, fix.head(fix.shop(EVENT), "Content-Length: 24")
    for _ in range(3):
        post("shop", EVENT, {})
        post("nobody", EVENT, {})
    post("mail", EVENT, fix.mail(EVENT, timestamp="1"))
    post("shop", b"{", fix.shop(b"{"))
    post("shop", b"", fix.shop(b""))
    post("shop", b"x" * 300_001, {})
    post("shop", EVENT, fix.shop(EVENT) | {"Content-Encoding": "gzip"})
    receiver.client.put("/webhooks/shop")
    assert hasty.raw(signed, EVENT[:5]).split()[1] == b"408"
    assert raw(b"NONSENSE\r\n\r\n").split()[1] == b"400"
    assert hasty.raw(b"POST /webhooks/shop HTTP/1.1\r\nHost").split()[1] == b"408"
    assert raw(b"GET / HTTP/1.1\r\nX-Long: " + b"a" * 66_000).split()[1] == b"431"
    expected = {
        ("shop", "bad_signature"): 3,
        ("mail", "bad_signature"): 1,
        ("", "unknown_source"): 3,
        ("shop", "malformed"): 2,
        ("shop", "too_large"): 1,
        ("shop", "coded"): 1,
        ("", "wrong_method"): 1,
        ("shop", "too_slow"): 1,
        ("", "not_http"): 1,
        ("", "too_slow"): 1,
        ("", "too_large"): 1,
    }
    until(lambda: counted(rows) == expected)


# Every transaction that writes anything in this database. Numbers of transactions are the whole server's.
WRITES = """
CREATE TABLE public.writes (id xid8 PRIMARY KEY);
CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    INSERT INTO public.writes VALUES (pg_current_xact_id()) ON CONFLICT DO NOTHING; RETURN NULL; END $$;
DO $$ DECLARE name regclass; BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'nottwice'::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON %%s EXECUTE FUNCTION public.note()', name);
    END LOOP; END $$"""


def test_a_flood_of_forged_requests_costs_hardly_a_transaction(receivers: Start, rows: Rows) -> None:
    receiver = receivers()
    rows(WRITES)
    began = time.monotonic()
    for _ in range(300):
        assert receiver.post("shop", EVENT, {}).status_code == 401
    until(lambda: counted(rows) == {("shop", "bad_signature"): 300})
    assert rows("SELECT count(*) FROM public.writes")[0][0] < 10 + 5 * (time.monotonic() - began)
    assert rows("SELECT count(*) <= 2 FROM nottwice.refusals") == [(True,)]  # two when the minute turns


def test_what_was_refused_without_a_database_is_counted_when_it_is_back(receivers: Start, rows: Rows) -> None:
    receiver = receivers(QUICK)
    rows("UPDATE pg_database SET datallowconn = false WHERE datname = current_database()")
    rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'nottwice_receiver' AND datname = current_database()"
    )
    receiver.post("shop", EVENT, {})
    assert receiver.shop(EVENT) == 503
    receiver.noted("no sign of life")
    receiver.post("shop", EVENT, {})
    rows("UPDATE pg_database SET datallowconn = true WHERE datname = current_database()")
    until(lambda: counted(rows) == {("shop", "bad_signature"): 2, ("shop", "not_stored"): 1})
    assert len(receiver.notes("no sign of life")) == 1


def test_a_receiver_gives_a_sign_of_life_until_it_stops(
    receivers: Start, rows: Rows, database: Database
) -> None:
    receiver = receivers(QUICK)

    def alive() -> list[workers.Alive]:
        return database.run(lambda tx: workers.alive(tx, 60.0, kind="receiver"))

    until(alive)
    (sign,) = alive()
    assert (sign.name, sign.pid) == (f"receiver-{receiver.port}", receiver.process.pid)
    until(lambda: rows("SELECT seen_at > started_at + interval '0.2 s' FROM nottwice.workers") == [(True,)])
    assert database.run(lambda tx: workers.alive(tx, 60.0)) == []  # it is no worker
    receiver.post("shop", EVENT, {})
    assert receiver.stop() == 0
    assert alive() == [] and rows("SELECT stopped_at IS NOT NULL FROM nottwice.workers") == [(True,)]
    assert counted(rows) == {("shop", "bad_signature"): 1}


def test_a_killed_receiver_falls_silent(receivers: Start, rows: Rows) -> None:
    receiver = receivers(QUICK)
    until(lambda: rows("SELECT 1 FROM nottwice.workers"))
    receiver.process.send_signal(signal.SIGKILL)
    receiver.process.wait(fix.WITHIN_S)
    until(
        lambda: (
            rows("SELECT seen_at < now() - interval '0.3 s', stopped_at FROM nottwice.workers")
            == [(True, None)]
        )
    )


# ── the counts themselves ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def add(database: Database, rows: Rows) -> Callable[..., None]:
    def add(
        n: int, *, source: str = "shop", reason: Refusal = Refusal.TOO_LARGE, minutes_ago: int = 0
    ) -> None:
        rows(
            """INSERT INTO nottwice.refusals VALUES (date_trunc('minute', now()) - make_interval(mins => %s), %s, %s,
                                                     gen_random_uuid(), %s)""",
            *(minutes_ago, source, reason.value, n),
        )

    return add


def test_lately_is_by_source_and_reason_the_most_frequent_first(
    database: Database, add: Callable[..., None]
) -> None:
    add(2)
    add(3, minutes_ago=10)
    add(9, reason=Refusal.BAD_SIGNATURE, minutes_ago=50)
    add(99, minutes_ago=61)
    found = database.run(lambda tx: refusals.lately(tx))
    assert [(r.source, r.reason, r.n) for r in found] == [
        ("shop", Refusal.BAD_SIGNATURE, 9),
        ("shop", Refusal.TOO_LARGE, 5),
    ]
    assert found[0].last_at < found[1].last_at


def test_minutes_are_folded_into_hours_once(database: Database, rows: Rows, add: Callable[..., None]) -> None:
    for minutes_ago in (0, 2000, 2001, 5000):
        add(4, minutes_ago=minutes_ago)
    for taken in (3, 0):
        assert database.run(lambda tx: refusals.fold(tx)) == taken
        assert rows("SELECT sum(n) FROM nottwice.refusals") == [(4,)]
        assert rows("SELECT sum(n), count(*) <= 3 FROM nottwice.refusals_hourly") == [(12, True)]


def test_the_reasons_are_those_of_the_table(rows: Rows, add: Callable[..., None]) -> None:
    for reason in Refusal:
        add(1, reason=reason)
    assert len(counted(rows)) == len(Refusal)
