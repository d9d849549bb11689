"""Groups: one transaction for many, undone as a whole, settled one by one; each commit fenced by the claim tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from ledger import work
from ledger.database import Database, Transaction
from ledger.errors import EndsTransaction
from ledger.records import Email, Event, Worker
from tests.fix_worker import LEASE_S, Notes, Workshop
from worker.commits import Commits
from worker.handlers import Handlers, Propose, RetryLater, SetAside
from worker.in_hand import InHand, Stage
from worker.trying.events import Working


class Bench:
    """Claims by hand and commits on this thread; `ended` says how each claim ended."""

    def __init__(self, workshop: Workshop, handlers: Handlers) -> None:
        self.workshop, self.handlers = workshop, handlers
        self.database = Database(workshop.url, pool_size=4)
        self.worker = Worker(uuid4(), "bench", handlers.kinds)
        self.ended: dict[int, str] = {}
        self.commits = Commits(self.database, workshop.settings(more=PROVIDER), self._note_end)

    def _note_end(self, ended: Any, ending: str) -> None:
        self.ended |= {one.claimed.event.id: ending for one in ended}

    def claim(self, limit: int = 50) -> list[InHand]:
        claimed = self.database.run(lambda tx: work.claim(tx, self.worker, limit=limit, lease_s=LEASE_S))
        return [InHand(c, self.handlers.find(c.event), Stage.READY) for c in claimed]

    def commit(self, group: list[InHand]) -> bool:
        """Together, and if that was undone, one by one."""
        if self.commits.together(group):
            return True
        for one in group:
            self.commits.settle(one)
        return False


PROVIDER = """
[providers.post]
kind = "inboxili"
key = "post-key"
"""


def handlers_of(*parts: Callable[[Transaction, Event, Propose], None]) -> Handlers:
    handlers = Handlers()
    for part in parts:
        handlers.apply("shop", part.__name__)(part)
    return handlers


def good(tx: Transaction, event: Event, propose: Propose) -> None:
    tx.execute(
        "INSERT INTO public.effects SELECT :what || pg_current_xact_id()::text",
        what=f"{event.type} {event.id} ",
    )


def bad(tx: Transaction, event: Event, propose: Propose) -> None:
    tx.execute("INSERT INTO public.effects (what) VALUES ('bad')")
    raise ValueError("the invoice has\nno number")


@pytest.fixture
def bench(workshop: Workshop) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def build(*parts: Callable[[Transaction, Event, Propose], None]) -> Bench:
        made.append(Bench(workshop, handlers_of(*parts)))
        return made[-1]

    yield build
    for one in made:
        one.database.close()


def test_a_group_is_one_transaction(workshop: Workshop, bench: Callable[..., Bench]) -> None:
    ids = workshop.accept(*["good"] * 20)
    assert bench(good).commit(bench(good).claim())
    transactions = {effect.split()[2] for effect in workshop.effects()}
    assert len(workshop.effects()) == 20 and len(transactions) == 1
    assert workshop.states() == ["completed"] * len(ids)
    assert workshop.value("SELECT count(*) FROM nottwice.event_attempts") == 0


def test_a_member_that_lost_its_lease_drops_out(workshop: Workshop, bench: Callable[..., Bench]) -> None:
    first, lost, last = workshop.accept("good", "good", "good")
    slow, fast = bench(good), bench(good)
    group = slow.claim()
    workshop.run(
        "UPDATE nottwice.events SET lease_until = now() - interval '1 second' WHERE id = :id", id=lost
    )
    workshop.database.run(work.rescue)
    taken = fast.database.run(lambda tx: work.claim(tx, fast.worker, limit=1, lease_s=9, idle=True))
    assert [one.event.id for one in taken] == [lost]
    assert slow.commit(group)
    assert slow.ended == {first: "completed", lost: "lease_lost", last: "completed"}
    assert [effect.split()[1] for effect in workshop.effects()] == [str(first), str(last)]
    assert workshop.states() == ["completed", "processing", "completed"]
    assert workshop.value("SELECT sum(n) FROM nottwice.counters WHERE metric = 'lease_lost'") == 1


def test_an_expired_lease_that_nobody_took_completes(workshop: Workshop, bench: Callable[..., Bench]) -> None:
    workshop.accept("good")
    own = bench(good)
    group = own.claim()
    workshop.run("UPDATE nottwice.events SET lease_until = now() - interval '1 minute'")
    assert own.commit(group)
    assert workshop.states() == ["completed"]


def test_a_broken_member_is_alone_to_blame(
    workshop: Workshop, bench: Callable[..., Bench], notes: Notes
) -> None:
    before, broken, after = workshop.accept("good", "bad", "good")
    own = bench(good, bad)
    assert not own.commit(own.claim())
    assert own.ended == {before: "completed", broken: "retried", after: "completed"}
    assert [effect.split()[0] for effect in workshop.effects()] == ["good", "good"]
    (row,) = workshop.rows(
        "SELECT state, attempts, last_error, due_at > accepted_at AS later FROM nottwice.events WHERE id = :id",
        id=broken,
    )
    assert (row.state, row.attempts, row.later) == ("pending", 1, True)
    assert row.last_error.startswith("ValueError: the invoice has no number (test_executor_groups.py, line ")
    assert "invoice" not in str(notes.all), "what a handler says may hold what came in: it is not for logs"


def test_what_fails_at_the_commit_is_found_alone(workshop: Workshop, bench: Callable[..., Bench]) -> None:
    """A deferred constraint speaks at the end of the transaction, when nobody knows whose row it was."""
    workshop.run("CREATE TABLE public.once (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    workshop.run("INSERT INTO public.once VALUES (1)")

    def twice(tx: Transaction, event: Event, propose: Propose) -> None:
        tx.execute("INSERT INTO public.once VALUES (1)")

    fine, broken = workshop.accept("good", "twice")
    own = bench(good, twice)
    assert not own.commit(own.claim())
    assert own.ended == {fine: "completed", broken: "retried"}
    error = workshop.value("SELECT last_error FROM nottwice.events WHERE id = :id", id=broken)
    assert "duplicate key" in error and "(1)" not in error, "values stay out of the error"


def test_serialization_failures_are_retried_whole(workshop: Workshop, bench: Callable[..., Bench]) -> None:
    workshop.run("CREATE SEQUENCE public.tries")
    workshop.run(
        """CREATE FUNCTION public.fail_twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('public.tries') <= 3 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF;
             RETURN NEW; END $$"""
    )
    workshop.run(
        "CREATE TRIGGER t BEFORE INSERT ON public.effects FOR EACH ROW EXECUTE FUNCTION public.fail_twice()"
    )
    workshop.accept("good")
    own = bench(good)
    assert not own.commit(own.claim())
    assert workshop.states() == ["completed"] and len(workshop.effects()) == 1
    assert workshop.value("SELECT attempts FROM nottwice.events") == 1


def test_a_group_does_not_wait_for_the_users_rows(workshop: Workshop, bench: Callable[..., Bench]) -> None:
    workshop.run("CREATE TABLE public.stock (n int)")
    workshop.run("INSERT INTO public.stock VALUES (0)")

    def sell(tx: Transaction, event: Event, propose: Propose) -> None:
        tx.execute("UPDATE public.stock SET n = n + 1")

    workshop.accept("good", "sell", "good")
    own = bench(good, sell)
    group = own.claim()
    alone = [threading.Thread(target=own.commits.settle, args=(one,)) for one in group]
    with workshop.database.transaction() as tx:
        tx.execute("UPDATE public.stock SET n = n + 10")
        undone = threading.Thread(target=own.commits.together, args=(group,))
        undone.start()
        undone.join(40)
        for thread in alone:
            thread.start()
        alone[0].join(40)
        alone[2].join(40)
        assert list(own.ended.values()) == ["completed"] * 2, "the one that waits holds up nobody"
    alone[1].join(40)
    assert workshop.states() == ["completed"] * 3
    assert workshop.value("SELECT n FROM public.stock") == 11


def test_an_apply_part_that_idles_in_its_transaction_fails(
    workshop: Workshop, bench: Callable[..., Bench]
) -> None:
    """The server cuts the connection; that must not look like a database that is away, or it would go on for ever."""

    def idle(tx: Transaction, event: Event, propose: Propose) -> None:
        tx.one("SELECT set_config('idle_in_transaction_session_timeout', '50ms', true)")
        threading.Event().wait(0.3)

    fine, broken = workshop.accept("good", "idle")
    own = bench(good, idle)
    assert not own.commit(own.claim())
    assert own.ended == {fine: "completed", broken: "retried"}
    assert "idle-in-transaction" in workshop.value(
        "SELECT last_error FROM nottwice.events WHERE id = :id", id=broken
    )


def test_an_apply_part_that_cuts_its_connection_fails_in_the_end(
    workshop: Workshop, bench: Callable[..., Bench]
) -> None:
    def cut(tx: Transaction, event: Event, propose: Propose) -> None:
        tx.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    workshop.accept("cut")
    own = bench(cut)
    assert not own.commit(own.claim())
    assert list(own.ended.values()) == ["retried"]


def test_a_handler_can_wait_without_being_counted_or_give_up(
    workshop: Workshop, bench: Callable[..., Bench]
) -> None:
    def busy(tx: Transaction, event: Event, propose: Propose) -> None:
        raise RetryLater(60, "the warehouse is closed")

    def hopeless(tx: Transaction, event: Event, propose: Propose) -> None:
        raise SetAside("no such customer")

    workshop.accept("busy", "hopeless")
    own = bench(busy, hopeless)
    own.commit(own.claim())
    later, aside = workshop.rows("SELECT * FROM nottwice.events ORDER BY id")
    assert (later.state, later.attempts) == ("pending", 0)
    assert workshop.value(
        "SELECT due_at - now() > interval '55 seconds' FROM nottwice.events ORDER BY id LIMIT 1"
    )
    assert (aside.state, aside.attempts) == ("failed", 1)
    assert "no such customer" in aside.last_error


def test_what_is_proposed_commits_with_the_event_and_once(
    workshop: Workshop, bench: Callable[..., Bench], notes: Notes
) -> None:
    def order(tx: Transaction, event: Event, propose: Propose) -> None:
        proposed = propose("receipt", "invoice:1:paid", {"subject": "paid"}, recipients=("a@example.com",))
        tx.execute("INSERT INTO public.effects VALUES (:id)", id=str(proposed.action_id))

    def refund(tx: Transaction, event: Event, propose: Propose) -> None:
        propose("receipt", "never", {"subject": "undone"})
        raise SetAside("no")

    first, second, third = workshop.accept("order", "order", "refund")
    own = bench(order, refund)
    own.commit(own.claim())
    (action,) = workshop.rows("SELECT id, event_id, namespace, state, account FROM nottwice.actions")
    assert (action.namespace, action.state, action.account) == ("acme", "approved", "post")
    assert action.event_id == first
    assert workshop.effects() == [str(action.id)] * 2
    assert notes.of("proposed", event_id=first, action_id=action.id)
    assert notes.of("proposed before", event_id=second, action_id=action.id, same=True)
    assert not notes.of("proposed", event_id=third)


def test_what_can_never_go_out_fails_its_handler_and_takes_no_key(
    workshop: Workshop, bench: Callable[..., Bench], notes: Notes
) -> None:
    def letter(tx: Transaction, event: Event, propose: Propose) -> None:
        to = () if event.id == first else ("ada@example.com",)
        propose("receipt", "letter:1", Email(to, "Re: hello", "t", sender="shop@example.org", inbox="in-1"))
        propose("news", "letter:1", {"another": "kind"})

    first, second = workshop.accept("letter", "letter")
    own = bench(letter)
    own.commit(own.claim())
    (action,) = workshop.rows("SELECT event_id FROM nottwice.actions")
    assert action.event_id == second
    assert "has no recipient" in workshop.value(
        "SELECT last_error FROM nottwice.events WHERE id = :id", id=first
    )
    assert notes.of("the key is another kind's", event_id=second, kind="news", standing="receipt")


def test_a_text_that_nothing_can_hold_fails_its_own_handler_and_no_neighbour(
    workshop: Workshop, bench: Callable[..., Bench]
) -> None:
    def letter(tx: Transaction, event: Event, propose: Propose) -> None:
        subject = "Re: \ud83d" if event.id == hostile else "Re: hello"
        email = Email(("ada@example.com",), subject, "t", sender="shop@example.org")
        propose("receipt", f"letter:{event.id}", email)

    first, hostile, last = workshop.accept("letter", "letter", "letter")
    own = bench(letter)
    own.commit(own.claim())
    assert own.ended == {first: "completed", hostile: "retried", last: "completed"}
    assert workshop.value("SELECT count(*) FROM nottwice.actions") == 2
    said = workshop.value("SELECT last_error FROM nottwice.events WHERE id = :id", id=hostile)
    assert said.startswith("Unstorable: The content.subject of a proposed action")
    assert "ledger.payload.storable()" in said


def test_what_is_unavailable_for_too_long_is_set_aside_and_called_so(
    workshop: Workshop, bench: Callable[..., Bench]
) -> None:
    """W2: unavailable does not count, up to a limit in time; then its last attempt ends it."""

    def busy(tx: Transaction, event: Event, propose: Propose) -> None:
        raise RetryLater(60, "the warehouse is closed")

    (event,) = workshop.accept("busy")
    workshop.run(
        "UPDATE nottwice.events SET accepted_at = now() - interval '25 hours', attempts = attempts_max - 1"
    )
    own = bench(busy)
    own.commit(own.claim())
    assert own.ended == {event: "set_aside"} and workshop.states() == ["failed"]
    assert workshop.value("SELECT sum(n) FROM nottwice.counters WHERE metric = 'set_aside'") == 1


def test_a_late_done_is_refused_and_its_change_undone(
    workshop: Workshop, bench: Callable[..., Bench]
) -> None:
    """WRK-14: the first worker comes back after a second one has done the work."""
    (event,) = workshop.accept("good")
    slow, fast = bench(good), bench(good)
    late = slow.claim()
    workshop.run("UPDATE nottwice.events SET lease_until = now() - interval '1 second'")
    workshop.database.run(work.rescue)
    (claimed,) = fast.database.run(lambda tx: work.claim(tx, fast.worker, limit=1, lease_s=9, idle=True))
    assert claimed.alone
    assert fast.commit([InHand(claimed, fast.handlers.find(claimed.event), Stage.READY)])
    slow.commits.settle(late[0])
    assert slow.ended == {event: "lease_lost"} and fast.ended == {event: "completed"}
    assert len(workshop.effects()) == 1


def test_a_late_failure_changes_nothing(workshop: Workshop, bench: Callable[..., Bench]) -> None:
    (event,) = workshop.accept("bad")
    own = bench(bad)
    (late,) = own.claim()
    workshop.run(
        "UPDATE nottwice.events SET claim_token = gen_random_uuid(), lease_until = now() + interval '9 s'"
    )
    own.commits.settle(late)
    assert own.ended == {event: "lease_lost"}
    assert workshop.states() == ["processing"]
    assert workshop.value("SELECT count(*) FROM nottwice.event_attempts") == 0


def by_statement(tx: Transaction, event: Event, propose: Propose) -> None:
    tx.execute("INSERT INTO public.effects (what) VALUES ('half done')")
    tx.execute("commit")


def by_connection(tx: Transaction, event: Event, propose: Propose) -> None:
    tx.execute("INSERT INTO public.effects (what) VALUES ('half done')")
    with suppress(EndsTransaction):
        tx.connection.commit()


@pytest.mark.parametrize("ends", [by_statement, by_connection])
def test_an_apply_part_that_would_commit_by_hand_fails_and_halves_no_neighbour(
    workshop: Workshop, bench: Callable[..., Bench], ends: Callable[..., None]
) -> None:
    """The completions of a whole group stand before the first apply part: a commit there would lose the others' work."""
    first, hasty, last = workshop.accept("good", ends.__name__, "good")
    one = bench(good, ends)
    assert not one.commit(one.claim())
    assert one.ended == {first: "completed", hasty: "retried", last: "completed"}
    assert [effect.split()[1] for effect in workshop.effects()] == [str(first), str(last)]


def test_a_slow_part_may_open_a_transaction_of_its_own(workshop: Workshop) -> None:
    own, handlers = Database(workshop.url), Handlers()

    @handlers.on("shop", "sale")
    def look(event: Event) -> int:
        with own.transaction() as tx:
            return int(tx.one("SELECT count(*) FROM public.effects")[0])

    look.apply(lambda tx, event, seen, propose: good(tx, event, propose))
    workshop.accept("sale")
    worked = Working(workshop.database, workshop.settings(), handlers).all_due()
    own.close()
    assert [one.ending for one in worked] == ["completed"] and len(workshop.effects()) == 1
