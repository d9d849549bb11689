"""The event machine, step by step: what each function does to the row, and that a stale token does nothing at all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy.exc import IntegrityError

from ledger import work
from ledger.database import Database, Transaction
from ledger.errors import LeaseLost
from ledger.records import ClaimedEvent, EventLease, Mode, Run
from ledger.states import EventState
from tests.fix_events import Ledger, delivery, worker

CLAIM_COLUMNS = ("claim_token", "claimed_by", "claimed_at", "lease_until")
W = worker()


def attempts_of(book: Ledger, event_id: int) -> list[tuple[object, ...]]:
    return book.rows(
        "SELECT attempt, ending, error FROM nottwice.event_attempts WHERE event_id = :id ORDER BY id",
        id=event_id,
    )


def waits_s(book: Ledger, event_id: int) -> float:
    """How long after its last change the event is due."""
    return float(
        book.value(
            """SELECT extract(epoch FROM e.due_at - a.ended_at) FROM nottwice.events e JOIN nottwice.event_attempts a
               ON a.event_id = e.id WHERE e.id = :id ORDER BY a.id DESC LIMIT 1""",
            id=event_id,
        )
    )


# ── Claim ─────────────────────────────────────────────────────────────────────────────────────────────


def test_claim_gives_the_event_as_it_arrived_under_a_lease(book: Ledger) -> None:
    at = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    sent = delivery("evt_1", body=b'{"amount": 12.10}', occurred_at=at)
    book.accept(sent)
    one = book.claim_one(W, lease_s=30)
    assert (one.event.namespace, one.event.source, one.event.type) == ("acme", "shop", "invoice.paid")
    assert (one.event.event_key, one.event.body, one.event.occurred_at) == ("evt_1", sent.body, at)
    assert (one.event.run, one.attempt, one.attempts_max, one.alone) == (
        Run(Mode.FIRST, 1, 1, 5),
        1,
        5,
        False,
    )
    row = book.event(one.event.id)
    assert (row.state, row.claim_token, row.claimed_by) == ("processing", one.lease.token, W.id)
    assert row.lease_until - row.claimed_at == timedelta(seconds=30)
    assert (row.due_at, row.attempts, row.version) == (None, 1, 2)


def test_every_claim_has_a_fresh_token(book: Ledger) -> None:
    book.stored("a", "b", "c")
    claimed = book.claim(W)
    for one in claimed:
        book.database.run(lambda tx, lease=one.lease: work.hand_back(tx, lease))
    tokens = {one.lease.token for one in [*claimed, *book.claim(W)]}
    assert len(tokens) == 6


def test_claim_takes_no_more_than_asked_and_the_oldest_first(book: Ledger) -> None:
    ids = [book.stored(key)[0] for key in "abcde"]
    assert [one.event.id for one in book.claim(W, 2)] == ids[:2]
    assert [one.event.id for one in book.claim(W, 10)] == ids[2:]
    assert book.claim(W) == []


def test_claim_leaves_what_is_not_due_and_what_it_has_no_handler_for(book: Ledger) -> None:
    later, other_type, other_source, mine = (
        book.stored("later")
        + book.stored("t", type="x")
        + book.stored("s", source="elsewhere")
        + book.stored("mine")
    )
    book.run("UPDATE nottwice.events SET due_at = now() + interval '1 h' WHERE id = :id", id=later)
    assert [one.event.id for one in book.claim(W)] == [mine]
    everything = worker(("shop", "invoice.paid"), ("shop", "x"), ("elsewhere", "invoice.paid"))
    assert {one.event.id for one in book.claim(everything)} == {other_type, other_source}
    assert book.claim(replace(W, handles=())) == []


def test_pairs_are_pairs(book: Ledger) -> None:
    """A worker for (shop, a) and (till, b) does not get (shop, b)."""
    book.stored("x", source="shop", type="b")
    assert book.claim(worker(("shop", "a"), ("till", "b"))) == []


def test_namespaces_take_turns(book: Ledger) -> None:
    book.stored(*(f"flood {n}" for n in range(200)), namespace="flood")
    quiet = book.stored("q1", "q2", namespace="quiet") + book.stored("z", namespace="z")
    first = book.claim(W, 6)
    assert sorted(one.event.namespace for one in first) == ["flood", "flood", "flood", "quiet", "quiet", "z"]
    assert {one.event.id for one in first} > set(quiet)
    assert {one.event.namespace for one in book.claim(W, 10)} == {"flood"}


def test_types_of_one_namespace_share_its_turn_by_age(book: Ledger) -> None:
    kinds = worker(("shop", "a"), ("shop", "b"))
    ids = [book.stored(f"{n}", type="ab"[n % 2])[0] for n in range(6)]
    other = book.stored("o", namespace="other", type="a")
    assert [one.event.id for one in book.claim(kinds, 3)] == [*ids[:2], *other]


def test_a_type_nobody_handles_stands_in_nobodys_way(book: Ledger) -> None:
    book.stored(*(f"u{n}" for n in range(300)), type="unhandled")
    (mine,) = book.stored("mine")
    assert [one.event.id for one in book.claim(W, 1)] == [mine]


# ── Alone ─────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_rescued_is_claimed_by_an_idle_worker_and_alone(book: Ledger) -> None:
    killers = book.stored("k1", "k2")
    book.claim(W)
    book.expire(*killers)
    assert book.rescue() == dict.fromkeys(killers, "pending")
    others = sorted(book.stored("a", "b"))
    assert [one.event.id for one in book.claim(W, 1)] == others[:1]  # not idle
    first = book.claim(W, 10, idle=True)
    assert len(first) == 1 and first[0].alone and first[0].event.id in killers
    assert first[0].attempt == 2
    assert [one.event.id for one in book.claim(W)] == others[1:]
    assert len(book.claim(W, idle=True)) == 1


def test_idle_without_a_rescued_event_claims_as_ever(book: Ledger) -> None:
    ids = book.stored("a", "b")
    assert {one.event.id for one in book.claim(W, idle=True)} == set(ids)


# ── Complete ──────────────────────────────────────────────────────────────────────────────────────────


def test_complete_ends_the_claims_and_counts_them(book: Ledger) -> None:
    ids = book.stored("a", "b")
    assert book.complete(*book.claim(W)) == set(ids)
    for event_id in ids:
        row = book.event(event_id)
        assert (row.state, row.ending, row.attempts, row.version) == ("completed", "done", 1, 3)
        assert row.ended_at and [getattr(row, name) for name in CLAIM_COLUMNS] == [None] * 4
    assert book.value("SELECT n FROM nottwice.counters WHERE metric = 'completed'") == 2
    assert book.rows("SELECT FROM nottwice.event_attempts") == []  # the happy path writes no extra row


def test_complete_leaves_out_who_lost_its_lease(book: Ledger) -> None:
    book.stored("a", "b", "c")
    a, b, c = book.claim(W)
    forged = replace(b, lease=EventLease(b.lease.event_id, uuid4()))
    assert book.complete(a, forged, c) == {a.event.id, c.event.id}
    assert book.event(b.event.id).state == "processing"
    assert book.complete(a) == set()  # twice
    assert book.complete() == set()


def test_an_expired_lease_that_nobody_took_may_complete_but_not_be_renewed(book: Ledger) -> None:
    book.stored("a")
    one = book.claim_one(W)
    book.expire(one.event.id)
    assert book.database.run(lambda tx: work.renew(tx, [one.lease], lease_s=30)) == set()
    assert book.complete(one) == {one.event.id}


def test_the_local_change_and_the_completion_are_one_commit(book: Ledger) -> None:
    book.run("CREATE TABLE public.effects (event_id bigint)")
    book.stored("a")
    one = book.claim_one(W)

    def apply(tx: Transaction, *, fails: bool) -> None:
        if not work.complete(tx, [one.lease], writer=book.writer):
            raise LeaseLost
        tx.execute("INSERT INTO public.effects VALUES (:id)", id=one.event.id)
        if fails:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        book.database.run(lambda tx: apply(tx, fails=True))
    assert (book.event(one.event.id).state, book.value("SELECT count(*) FROM public.effects")) == (
        "processing",
        0,
    )
    book.database.run(lambda tx: apply(tx, fails=False))
    assert (book.event(one.event.id).state, book.value("SELECT count(*) FROM public.effects")) == (
        "completed",
        1,
    )


# ── Renew ─────────────────────────────────────────────────────────────────────────────────────────────


def test_renew_pushes_out_what_is_ours(book: Ledger) -> None:
    book.stored("a", "b", "c")
    a, b, c = book.claim(W, lease_s=10)
    book.expire(c.event.id)
    stale = EventLease(b.lease.event_id, uuid4())
    renewed = book.database.run(lambda tx: work.renew(tx, [a.lease, stale, c.lease], lease_s=100))
    assert renewed == {a.lease}
    left = book.rows(
        "SELECT round(extract(epoch FROM lease_until - claimed_at) / 10) FROM nottwice.events ORDER BY id"
    )
    assert left[0] == (10,) and left[1] == (1,)
    assert book.event(a.event.id).version == 2  # no transition


def test_a_lease_whose_row_our_own_completion_holds_is_not_called_lost(book: Ledger, many: Ledger) -> None:
    """Else a heartbeat gives up what a group is just completing; should the group roll back, it beats again."""
    book.stored("a", "b")
    a, b = book.claim(W)
    with many.database.transaction() as group:
        work.complete(group, [a.lease], writer=many.writer)
        with many.database.engine.connect() as other:
            beat = Transaction(other)
            beat.execute("SET LOCAL lock_timeout = '100ms'")  # it must not wait either
            assert work.renew(beat, [a.lease, b.lease], lease_s=60) == {a.lease, b.lease}
            other.commit()
    assert book.database.run(lambda tx: work.renew(tx, [a.lease, b.lease], lease_s=60)) == {b.lease}


# ── Not done ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_work_keeps_failing(book: Ledger) -> None:
    """Waits of 2, 4, 8, 16 s, then set aside; nothing before its time."""
    (event_id,) = book.stored("a")
    waits = []
    for attempt in range(1, 6):
        one = book.claim_one(W)
        assert one.attempt == attempt
        state = book.database.run(
            lambda tx, one=one, n=attempt: work.fail(tx, one, error=f"no {n}", base_s=2.0, chance=0.0)
        )
        assert book.claim(W) == []
        if attempt < 5:
            assert state is EventState.PENDING
            waits.append(waits_s(book, event_id))
            book.due(event_id)
    assert waits == [2.0, 4.0, 8.0, 16.0]
    row = book.event(event_id)
    assert (state, row.state, row.attempts, row.last_error) == (EventState.FAILED, "failed", 5, "no 5")
    assert [(n, ending) for n, ending, _ in attempts_of(book, event_id)] == [
        *((n, "retry") for n in range(1, 5)),
        (5, "set_aside"),
    ]


def test_chance_makes_a_wait_longer_by_at_most_a_quarter(book: Ledger) -> None:
    (event_id,) = book.stored("a")
    one = book.claim_one(W)
    book.database.run(lambda tx: work.fail(tx, one, error="no", base_s=2.0, chance=0.999))
    assert 2.0 < waits_s(book, event_id) <= 2.5


def retry(book: Ledger, one: ClaimedEvent, **more: object) -> EventState:
    return book.database.run(
        lambda tx: work.retry_later(tx, one.lease, delay_s=0.0, error="busy", **more)  # type: ignore[arg-type]
    )


def test_unavailable_moves_the_next_try_without_counting(book: Ledger) -> None:
    (event_id,) = book.stored("a")
    for _ in range(20):
        one = book.claim_one(W)
        assert one.attempt == 1
        assert retry(book, one, counted=False) is EventState.PENDING
    assert book.event(event_id).attempts == 0
    assert attempts_of(book, event_id) == [(1, "unavailable", "busy")] * 20


def test_unavailable_counts_when_it_lasts_too_long(book: Ledger) -> None:
    (event_id,) = book.stored("a")
    book.run("UPDATE nottwice.events SET accepted_at = now() - interval '2 h'")
    ends = [retry(book, book.claim_one(W), counted=False, uncounted_for_s=3600.0) for _ in range(5)]
    assert ends == [EventState.PENDING] * 4 + [EventState.FAILED]
    assert book.event(event_id).last_error == "busy"


def test_a_retry_without_an_attempt_left_is_set_aside(book: Ledger) -> None:
    (event_id,) = book.stored("a")
    assert retry(book, claim_with(book, attempts_max=1)) is EventState.FAILED
    assert attempts_of(book, event_id) == [(1, "set_aside", "busy")]


def test_the_first_claim_sets_how_many_there_may_be(book: Ledger) -> None:
    """Another worker's setting, or a new one, is for what has not begun; neither way does it break a limit."""
    (event_id,) = book.stored("a")
    assert retry(book, claim_with(book, attempts_max=2)) is EventState.PENDING
    for other in (1, 9):
        book.due(event_id)
        one = claim_with(book, attempts_max=other)
        assert (one.attempt, one.attempts_max) == (2, 2)
        book.database.run(lambda tx, one=one: work.hand_back(tx, one.lease))
    book.due(event_id)
    assert retry(book, claim_with(book, attempts_max=9)) is EventState.FAILED


def claim_with(book: Ledger, *, attempts_max: int) -> ClaimedEvent:
    (one,) = book.database.run(lambda tx: work.claim(tx, W, limit=1, lease_s=30.0, attempts_max=attempts_max))
    return one


def test_no_pending_event_is_without_an_attempt(book: Ledger) -> None:
    """One such row would make the claim of its neighbours fail."""
    book.stored("a")
    with pytest.raises(IntegrityError, match="pending_has_an_attempt_left"):
        book.run("UPDATE nottwice.events SET attempts = attempts_max")


def test_set_aside_keeps_the_reason(book: Ledger) -> None:
    (event_id,) = book.stored("a")
    one = book.claim_one(W)
    book.database.run(lambda tx: work.set_aside(tx, one.lease, error="A\x00B\ud800" + "x" * 5000))
    row = book.event(event_id)
    assert row.state == "failed" and row.ended_at and row.due_at is None
    assert row.last_error.startswith("A⟨U+0000⟩B⟨U+D800⟩xxx") and len(row.last_error) == 4000
    ((attempt, ending, error),) = attempts_of(book, event_id)
    assert (attempt, ending, error) == (1, "set_aside", row.last_error)


def test_hand_back_burns_no_attempt_and_keeps_the_last_error(book: Ledger) -> None:
    (event_id,) = book.stored("a")
    retry(book, book.claim_one(W))
    one = book.claim_one(W)
    book.database.run(lambda tx: work.hand_back(tx, one.lease))
    row = book.event(event_id)
    assert (row.state, row.attempts, row.last_error) == ("pending", 1, "busy")
    assert attempts_of(book, event_id) == [(1, "retry", "busy"), (2, "handed_back", None)]
    assert book.claim_one(W).attempt == 2


def test_a_claims_end_names_its_worker_and_never_its_token(book: Ledger) -> None:
    book.stored("a")
    one = book.claim_one(W)
    claimed_at = book.event(one.event.id).claimed_at
    retry(book, one)
    ((by, digest, since),) = book.rows("SELECT worker, token_digest, claimed_at FROM nottwice.event_attempts")
    assert (by, since) == (W.id, claimed_at)
    assert bytes(digest) == hashlib.sha256(one.lease.token.bytes).digest()


# ── Stale ─────────────────────────────────────────────────────────────────────────────────────────────

STALE: dict[str, Callable[[Transaction, ClaimedEvent], object]] = {
    "complete": lambda tx, one: work.complete(tx, [one.lease], writer=uuid4()),
    "renew": lambda tx, one: work.renew(tx, [one.lease], lease_s=1000),
    "retry_later": lambda tx, one: work.retry_later(tx, one.lease, delay_s=0, error="stale"),
    "unavailable": lambda tx, one: work.retry_later(tx, one.lease, delay_s=0, error="stale", counted=False),
    "set_aside": lambda tx, one: work.set_aside(tx, one.lease, error="stale"),
    "fail": lambda tx, one: work.fail(tx, one, error="stale", base_s=1, chance=0),
    "hand_back": lambda tx, one: work.hand_back(tx, one.lease),
}
MOVED_ON = ("claimed by another", "completed by another", "waiting", "set aside")
TABLES = ("events", "event_attempts", "counters")


def moved_on(book: Ledger, how: str) -> ClaimedEvent:
    """A claim whose worker went silent, and what became of the event since."""
    book.stored("a")
    stale = book.claim_one(W)
    book.expire(stale.event.id)
    book.rescue()
    if how == "waiting":
        return stale
    now = book.claim_one(worker(name="other"), idle=True)
    if how == "completed by another":
        book.complete(now)
    elif how == "set aside":
        book.database.run(lambda tx: work.set_aside(tx, now.lease, error="no"))
    return stale


@pytest.mark.parametrize("how", MOVED_ON)
@pytest.mark.parametrize("name", STALE)
def test_wrk_03_a_stale_claim_changes_nothing(book: Ledger, name: str, how: str) -> None:
    stale = moved_on(book, how)
    before = [book.rows(f"SELECT t.* FROM nottwice.{table} t ORDER BY 1") for table in TABLES]
    if name in ("complete", "renew"):
        assert book.database.run(lambda tx: STALE[name](tx, stale)) == set()
    else:
        with pytest.raises(LeaseLost, match="in other hands"):
            book.database.run(lambda tx: STALE[name](tx, stale))
    assert [book.rows(f"SELECT t.* FROM nottwice.{table} t ORDER BY 1") for table in TABLES] == before


def test_wrk_14_a_handler_that_lost_its_lease_leaves_no_local_change(book: Ledger) -> None:
    book.run("CREATE TABLE public.effects (by text)")
    stale = moved_on(book, "completed by another")

    def late(tx: Transaction) -> None:
        tx.execute("INSERT INTO public.effects VALUES ('late')")
        work.set_aside(tx, stale.lease, error="x")

    with pytest.raises(LeaseLost):
        book.database.run(late)
    assert book.value("SELECT count(*) FROM public.effects") == 0


def test_the_workers_login_may_do_all_of_it(book: Ledger, login_url: Callable[[str], str]) -> None:
    book.stored(*"abcdef")
    own = Ledger(Database(login_url("nottwice_worker")))
    a, b, c, d, *silent = own.claim(W)
    own.complete(a)
    retry(own, b)
    own.database.run(lambda tx: work.set_aside(tx, c.lease, error="no"))
    own.database.run(lambda tx: work.hand_back(tx, d.lease))
    book.expire(*(one.event.id for one in silent))
    assert own.rescue() == {one.event.id: "pending" for one in silent}
    own.database.close()
