"""`nottwice prune`: what is over its time goes, in small batches; what is unfinished never does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ledger import work
from ledger.actions import proposals
from ledger.database import Database
from ledger.figures import counters
from ledger.records import AcceptanceKind, Accepted, KindRules, digest_of
from ledger.retention import prune
from ledger.retention.events import BODIES, KEYS
from ledger.retention.walk import RULES, Overdue, Walk, overdue
from ledger.settings import RetentionSettings
from tests.fix_events import Ledger, delivery, unusable, worker
from tests.fix_home import UNSAFE, Home
from tests.fix_notices import Provider
from tests.fix_reprocess import a_finding
from tests.fix_sends import ACCEPTED, DAY_S, KEYED, TO_APPROVE, Sends

W = worker()
DAYS = "make_interval(days => :days)"


def pruned(database: Database, **options: Any) -> dict[str, int]:
    settings = options.pop("settings", RetentionSettings())
    return {f"{one.what} {one.namespace}".strip(): one.rows for one in prune(database, settings, **options)}


def completed(book: Ledger, *keys: str, days: float) -> list[int]:
    """Events that were completed so many days ago."""
    ids = book.stored(*keys)
    book.complete(*book.claim(W, len(keys)))
    old(book, ids, days)
    return ids


def old(book: Ledger, ids: list[int], days: float) -> None:
    book.run(
        f"""UPDATE nottwice.events SET accepted_at = accepted_at - {DAYS}, ended_at = ended_at - {DAYS}, version = version + 1
            WHERE id = ANY (:ids)""",
        ids=ids,
        days=days,
    )


def with_body(book: Ledger) -> list[int]:
    return [n for (n,) in book.rows("SELECT event_id FROM nottwice.event_contents ORDER BY 1")]


# ── Bodies ────────────────────────────────────────────────────────────────────────────────────────────


def test_bodies_of_finished_events_go_after_seven_days(book: Ledger) -> None:
    before = completed(book, "over", days=8)
    after = completed(book, "not yet", days=6)
    assert pruned(book.database)["event bodies"] == 1
    assert with_body(book) == after
    row = book.event(before[0])
    assert (row.state, row.event_key, row.content_digest) == ("completed", "over", None)
    assert pruned(book.database)["event bodies"] == 0


def test_what_is_unfinished_keeps_its_body_for_ever(book: Ledger) -> None:
    ids = book.stored("pending", "processing", "aside")
    *_, aside = book.claim(W, 2)
    book.database.run(lambda tx: work.set_aside(tx, aside.lease, error="no"))
    old(book, ids, 500)
    assert pruned(book.database)["event bodies"] == 0
    assert with_body(book) == sorted(ids)


def test_a_delivery_after_its_body_is_gone_is_a_duplicate_and_no_conflict(book: Ledger) -> None:
    (event_id,) = completed(book, "a", days=8)
    pruned(book.database)
    (answer,) = book.accept(delivery("a", body=b"something else"))
    assert (answer.kind, answer.event_id) == (AcceptanceKind.NOT_COMPARED, event_id)
    assert book.value("SELECT count(*) FROM nottwice.conflicts") == 0


@pytest.mark.parametrize(("settled_days", "goes"), [(None, False), (6, False), (8, True)])
def test_an_event_is_finished_when_its_actions_are(
    book: Ledger, sends: Sends, settled_days: int | None, goes: bool
) -> None:
    (event_id,) = completed(book, "a", days=30)
    action_id = sends.proposed(KEYED)
    book.run("UPDATE nottwice.actions SET event_id = :e, version = version + 1", e=event_id)
    if settled_days is not None:
        sends.tried(action_id, ACCEPTED)
        book.run(
            f"UPDATE nottwice.actions SET settled_at = settled_at - {DAYS}, version = version + 1",
            days=settled_days,
        )
    assert pruned(book.database)["event bodies"] == int(goes)


def test_small_batches_reach_everything_and_leave_what_is_locked(book: Ledger) -> None:
    ids = sorted(completed(book, *(f"k{n}" for n in range(8)), days=8))
    looked: list[int] = []
    with book.database.engine.connect() as other:
        other.exec_driver_sql(f"SELECT FROM nottwice.events WHERE id = {ids[4]} FOR NO KEY UPDATE")
        settings = RetentionSettings(batch_rows=3)
        assert (
            pruned(book.database, settings=settings, advance=lambda n, _: looked.append(n))["event bodies"]
            == 7
        )
    assert with_body(book) == [ids[4]]
    assert looked[:3] == [3, 6, 8]


def test_a_transaction_removes_no_more_bytes_than_it_may(book: Ledger) -> None:
    """The first of a page always goes, however large it is."""
    keys = [f"k{n}" for n in range(5)]
    book.accept(*(delivery(key, body=b"x" * 100) for key in keys))
    book.complete(*book.claim(W, 5))
    old(book, [n for (n,) in book.rows("SELECT id FROM nottwice.events")], 8)
    (due,) = (
        one for one in book.database.run(lambda tx: overdue(tx, RetentionSettings())) if one.rule is BODIES
    )
    walk = Walk(due.rule, due.namespace, RetentionSettings(batch_bytes_max=150))
    sizes = []
    while not walk.done:
        before = walk.content_bytes
        walk.step(book.database)
        sizes.append(walk.content_bytes - before)
    assert sizes == [200, 200, 100]


# ── Keys of events ────────────────────────────────────────────────────────────────────────────────────


def test_after_its_time_a_key_is_given_up_and_a_replay_is_a_new_event(book: Ledger) -> None:
    """The row stays for whoever looks for its story; a key within its time still makes a duplicate."""
    occurrence = digest_of("occurrence")
    over, within = (completed(book, key, days=days)[0] for key, days in (("over", 32), ("within", 30)))
    book.run("UPDATE nottwice.events SET occurrence_digest = :o WHERE id = :id", o=occurrence, id=over)
    assert pruned(book.database)["event keys"] == 1
    row = book.event(over)
    assert (row.state, row.event_key, row.key_digest, row.occurrence_digest) == (
        "completed",
        "over",
        None,
        None,
    )
    again, same = book.accept(delivery("over", occurrence_digest=occurrence), delivery("within"))
    assert (again.kind, again.event_id == over) == (AcceptanceKind.ACCEPTED, False)
    assert (same.kind, same.event_id) == (AcceptanceKind.NOT_COMPARED, within)
    assert book.accept(delivery("over"))[0].event_id == again.event_id
    assert pruned(book.database)["event keys"] == 0


def test_what_is_unfinished_keeps_its_key_for_ever(book: Ledger) -> None:
    ids = book.stored("pending", "processing", "aside")
    *_, aside = book.claim(W, 2)
    book.database.run(lambda tx: work.set_aside(tx, aside.lease, error="no"))
    old(book, ids, 500)
    assert pruned(book.database)["event keys"] == 0
    assert {
        answer.kind for answer in book.accept(*(delivery(k) for k in ("pending", "processing", "aside")))
    } == {AcceptanceKind.DUPLICATE}


def test_an_event_keeps_its_key_while_one_of_its_sends_is_open(book: Ledger, sends: Sends) -> None:
    (event_id,) = completed(book, "a", days=60)
    action_id = sends.proposed(KEYED)
    book.run("UPDATE nottwice.actions SET event_id = :e, version = version + 1", e=event_id)
    assert pruned(book.database)["event keys"] == 0
    (late,) = (one.late_s for one in late_ones(book) if one.rule is KEYS)
    assert -DAY_S <= late < -DAY_S + 60  # not met again before tomorrow
    sends.tried(action_id, ACCEPTED)
    assert pruned(book.database)["event keys"] == 0
    book.run("UPDATE nottwice.events SET key_needed_at = key_needed_at - interval '1 day'")
    assert pruned(book.database)["event keys"] == 1


def test_with_its_key_an_event_gives_up_what_was_kept_of_its_deliveries(book: Ledger) -> None:
    """How many there were stays; their ids, and the words of failed claims, go."""
    (event_id,) = book.stored("a")
    claimed = book.claim_one(W)
    book.database.run(
        lambda tx: work.retry_later(tx, claimed.lease, delay_s=0, error="ann@example.com is full")
    )
    book.due(event_id)
    book.complete(*book.claim(W, 1))
    book.accept(*(delivery("a", delivery_id=f"d{n}") for n in (1, 2, 2)), delivery("a", delivery_id=""))
    old(book, [event_id], 32)
    assert pruned(book.database)["event keys"] == 1
    assert book.rows("SELECT event_id, delivery_id, deliveries FROM nottwice.duplicates") == [
        (event_id, "", 4)
    ]
    assert book.rows("SELECT ending, error FROM nottwice.event_attempts") == [("retry", None)]
    assert book.event(event_id).delivery_id == ""


def late_ones(book: Ledger) -> list[Overdue]:
    return book.database.run(lambda tx: overdue(tx, RetentionSettings()))


# ── Other contents ────────────────────────────────────────────────────────────────────────────────────


def test_a_conflict_nobody_saw_holds_both_contents_as_long_as_the_key(book: Ledger) -> None:
    seen, unseen = completed(book, "seen", "unseen", days=8)
    book.accept(delivery("seen", body=b"other"), delivery("unseen", body=b"other"))
    book.run(
        "UPDATE nottwice.conflicts SET acknowledged_at = now(), version = version + 1 WHERE event_id = :e",
        e=seen,
    )
    assert pruned(book.database)["event bodies"] == 1
    bodies = dict(book.rows("SELECT event_id, body FROM nottwice.conflicts"))
    assert bodies == {seen: None, unseen: b"other"} and with_body(book) == [unseen]
    book.run("UPDATE nottwice.conflicts SET last_seen_at = now() - interval '32 days'")
    book.run("UPDATE nottwice.events SET content_needed_at = content_needed_at - interval '1 day'")
    assert pruned(book.database)["event bodies"] == 1
    assert book.value("SELECT count(*) FROM nottwice.conflicts WHERE body IS NOT NULL") == 0


def test_what_lies_in_quarantine_goes_after_its_time_and_comes_again_as_new(book: Ledger) -> None:
    book.accept(unusable(b"bytes"), unusable(b"bytes"))
    book.run("UPDATE nottwice.quarantine SET last_seen_at = now() - interval '91 days'")
    book.accept(unusable(b"young"))
    assert pruned(book.database, dry_run=True)["contents in quarantine"] == 1
    assert pruned(book.database)["contents in quarantine"] == 1
    book.accept(unusable(b"bytes"))
    kept = book.rows("SELECT body, deliveries, settled_at IS NULL FROM nottwice.quarantine ORDER BY id")
    assert kept == [(None, 2, False), (b"young", 1, True), (b"bytes", 1, True)]


# ── At the boundary ───────────────────────────────────────────────────────────────────────────────────

AGED = {
    "event bodies": "UPDATE nottwice.events SET ended_at = now() - make_interval(secs => :s) WHERE ending = 'done'",
    "event keys": "UPDATE nottwice.events SET accepted_at = now() - make_interval(secs => :s) WHERE ending = 'done'",
    "findings of reprocessing": "UPDATE nottwice.reprocess_findings SET found_at = now() - make_interval(secs => :s)",
    "contents in quarantine": "UPDATE nottwice.quarantine SET last_seen_at = now() - make_interval(secs => :s)",
    "action contents": "UPDATE nottwice.actions SET settled_at = now() - make_interval(secs => :s)",
    "notices' recipients": "UPDATE nottwice.notices SET noted_at = now() - make_interval(secs => :s)",
    "action keys": "UPDATE nottwice.actions SET settled_at = now() - make_interval(secs => :s)",
}


def test_a_minute_before_its_time_each_stays_and_a_minute_after_it_goes(
    book: Ledger, sends: Sends, provider: Provider
) -> None:
    book.stored("a")
    book.complete(*book.claim(W, 1))
    book.accept(unusable(b"bytes"))
    closed(sends, 0)
    provider.says("delivered", "<theirs>", "cy@example.com")
    a_finding(book.database)
    for rule in RULES:
        time_s = getattr(RetentionSettings(), rule.period) * DAY_S
        for age_s, goes in ((time_s - 60, 0), (time_s + 60, 1), (time_s + 120, 0)):
            book.run(AGED[rule.what], s=age_s)
            assert pruned(sends.by_worker)[rule.what] == goes, (rule.what, age_s - time_s)


# ── By namespace ──────────────────────────────────────────────────────────────────────────────────────


def test_a_namespace_has_periods_of_its_own(book: Ledger) -> None:
    settings = RetentionSettings.model_validate({"namespaces": {"slow": {"event_bodies_days": 20}}})
    ids = [book.stored(name, namespace=name)[0] for name in ("acme", "other", "slow")]
    book.complete(*book.claim(W, 3))
    old(book, ids, 19)
    went = pruned(book.database, settings=settings)
    assert (went["event bodies"], went.get("event bodies slow")) == (2, None)
    old(book, ids, 2)
    went = pruned(book.database, settings=settings)
    assert (went["event bodies"], went["event bodies slow"]) == (0, 1)


def test_a_period_holds_for_those_that_say_nothing_else() -> None:
    given = {"event_bodies_days": 3.0, "namespaces": {"a": {"event_keys_days": 60.0}}}
    settings = RetentionSettings.model_validate(given)
    assert (settings.of("a").event_keys_days, settings.of("a").event_bodies_days) == (60, 3)
    assert (settings.of("b").event_keys_days, settings.of("b").event_bodies_days) == (31, 3)


def test_an_action_key_that_would_not_outlive_its_event_is_refused(home: Home) -> None:
    home.configure(
        "[retention]\naction_keys_days = 400\n\n[retention.namespaces.acme]\nevent_keys_days = 401\n"
    )
    stopped = home.run("status")
    assert stopped.returncode == 2
    assert "nottwice.toml, line 4" in stopped.stderr and "else a late replay sends again" in stopped.stderr


# ── Contents of actions ───────────────────────────────────────────────────────────────────────────────


def test_contents_and_recipients_go_thirty_days_after_settling(sends: Sends, database: Database) -> None:
    over, not_yet, waits = (sends.proposed(rules) for rules in (KEYED, KEYED, TO_APPROVE))
    for action_id, days in ((over, 31), (not_yet, 29)):
        sends.tried(action_id, ACCEPTED if action_id == over else Accepted("<m-2@provider.example>"))
        sends.sql(
            f"""UPDATE nottwice.actions SET settled_at = settled_at - {DAYS}, created_at = created_at - {DAYS},
                       version = version + 1 WHERE id = :id""",
            id=action_id,
            days=days,
        )
    sends.sql(
        "UPDATE nottwice.actions SET created_at = created_at - interval '1 year' WHERE id = :id", id=waits
    )
    assert pruned(database)["action contents"] == 1
    left = sends.rows("SELECT action_id FROM nottwice.action_contents ORDER BY 1")
    assert [row.action_id for row in left] == [not_yet, waits]
    assert sends.row(over).content_digest is not None and sends.attempts(over)


def closed(sends: Sends, days: float, rules: KindRules = KEYED, key: str = "") -> int:
    """A send that was settled so many days ago."""
    action_id = sends.proposed(rules, key=key)
    sends.tried(action_id, Accepted(f"<{action_id}@provider.example>"))
    sends.sql(
        f"UPDATE nottwice.actions SET settled_at = settled_at - {DAYS}, version = version + 1 WHERE id = :id",
        id=action_id,
        days=days,
    )
    return action_id


def test_after_four_hundred_days_the_key_goes_with_all_words_and_ids(
    sends: Sends, provider: Provider
) -> None:
    over, within = closed(sends, 401, key="receipt:ann@example.com"), closed(sends, 399)
    provider.says("delivered", f"<{over}@provider.example>", account="agentmail")
    assert pruned(sends.by_worker)["action keys"] == 1
    row = sends.row(over)
    assert (row.state, row.action_key, row.key_digest, row.message_id) == ("sent", "", None, None)
    assert [(t.outcome, t.message_id, t.reason) for t in sends.attempts(over)] == [("accepted", "", "")]
    assert sends.row(within).key_digest is not None and sends.attempts(within)[0].message_id
    known = sends.rows("SELECT message_id, action_id FROM nottwice.messages")
    assert [m.action_id for m in known] == [within]
    assert sends.rows("SELECT FROM nottwice.notices") == []
    assert sends.proposed(KEYED, key="receipt:ann@example.com") != over


def test_a_proposal_whose_key_is_given_up_while_it_is_looked_for_is_a_new_action(
    sends: Sends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut at the worst place: its insert met the key, its look did not."""
    old_one, look = closed(sends, 401, key="k"), proposals.find

    def late(*args: Any) -> Any:
        monkeypatch.setattr(proposals, "find", look)
        with sends.by_owner.engine.begin() as other:
            other.exec_driver_sql(f"UPDATE nottwice.actions SET key_digest = NULL WHERE id = {old_one}")
        return look(*args)

    monkeypatch.setattr(proposals, "find", late)
    assert sends.proposed(KEYED, key="k") != old_one


def test_a_kind_that_goes_out_once_ever_keeps_its_keys(sends: Sends) -> None:
    """Marked once, it is not looked at again, whatever is configured later."""
    welcome = closed(sends, 4000, replace(KEYED, kind="welcome"), key="welcome:7")
    other = closed(sends, 4000)
    assert pruned(sends.by_worker, once_ever=["welcome"])["action keys"] == 1
    assert sends.row(other).key_digest is None
    assert sends.proposed(KEYED, key="welcome:7") == welcome
    assert pruned(sends.by_worker)["action keys"] == 0


def test_an_earlier_generation_keeps_its_key_while_a_later_one_does(sends: Sends) -> None:
    """Else the same key would be a first one again, beside what was sent with a new key."""
    first = closed(sends, 500, key="k")
    later = closed(sends, 100)
    sends.sql(
        """UPDATE nottwice.actions SET generation = 2, key_digest = (SELECT key_digest FROM nottwice.actions WHERE id = :first)
           WHERE id = :later""",
        first=first,
        later=later,
    )
    assert pruned(sends.by_worker)["action keys"] == 0
    assert sends.proposed(KEYED, key="k") == later
    sends.sql(
        f"UPDATE nottwice.actions SET settled_at = settled_at - {DAYS} WHERE id = :id", id=later, days=301
    )
    assert pruned(sends.by_worker)["action keys"] == 1
    sends.sql("UPDATE nottwice.actions SET key_needed_at = key_needed_at - interval '1 day'")
    assert pruned(sends.by_worker)["action keys"] == 1


def test_what_is_not_settled_keeps_key_and_content_for_ever(sends: Sends) -> None:
    desk, waits = sends.uncertain(), sends.proposed(TO_APPROVE)
    for action_id in (desk, waits):
        sends.aged(action_id, 500 * DAY_S)
    went = pruned(sends.by_worker)
    assert (went["action keys"], went["action contents"]) == (0, 0)
    assert all(sends.row(n).key_digest is not None for n in (desk, waits))


def test_what_was_said_about_mail_of_strangers_is_forgotten(sends: Sends, provider: Provider) -> None:
    provider.says("delivered", "<theirs>", "cy@example.com")
    assert pruned(sends.by_worker)["messages of nobody we know"] == 0
    sends.sql("UPDATE nottwice.messages SET seen_at = seen_at - interval '401 days'")
    assert pruned(sends.by_worker, dry_run=True)["messages of nobody we know"] == 1
    assert pruned(sends.by_worker)["messages of nobody we know"] == 1
    assert sends.rows("SELECT FROM nottwice.notices") == sends.rows("SELECT FROM nottwice.messages") == []


# ── Counters, and the dry run ─────────────────────────────────────────────────────────────────────────


def test_old_minutes_become_hours_and_the_sums_stay(book: Ledger) -> None:
    book.stored("now")
    book.run(
        """INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
           SELECT date_trunc('minute', now() - n * interval '6 h'), 'acme', 'accepted', gen_random_uuid(), 2
           FROM generate_series(5, 20) n"""
    )
    total = book.database.run(lambda tx: counters.total(tx, "accepted"))
    assert pruned(book.database)["per-minute counters"] == 16
    assert book.value("SELECT count(*) FROM nottwice.counters") == 1
    assert book.database.run(lambda tx: counters.total(tx, "accepted")) == total == 33


def test_a_dry_run_counts_the_same_and_changes_nothing(book: Ledger, sends: Sends) -> None:
    completed(book, "a", "b", days=8)
    action_id = sends.proposed(KEYED)
    sends.tried(action_id, ACCEPTED)
    sends.sql(
        "UPDATE nottwice.actions SET settled_at = settled_at - interval '31 days', version = version + 1"
    )
    book.run("UPDATE nottwice.counters SET minute = minute - interval '2 days'")
    versions = book.rows("SELECT id, version FROM nottwice.events ORDER BY id")
    would = list(prune(book.database, RetentionSettings(), dry_run=True))
    counted = {one.what: (one.rows, one.content_bytes > 0) for one in would}
    assert (counted["event bodies"], counted["action contents"]) == ((2, True), (1, True))
    assert counted["per-minute counters"][0] > 0
    assert book.rows("SELECT id, version FROM nottwice.events ORDER BY id") == versions
    assert len(with_body(book)) == 2
    assert list(prune(book.database, RetentionSettings())) == would


def test_the_command_says_what_went(
    home: Home, book: Ledger, database_url: str, login_url: Callable[[str], str]
) -> None:
    home.configure(UNSAFE + "[retention]\nevent_bodies_days = 2.5\n")
    completed(book, "a", days=3)
    shown = home.run("prune", "--dry-run", DATABASE_URL=database_url)
    assert shown.stdout.splitlines()[0] == "event bodies, older than 2.5 days: 1 would be removed (8 bytes)"
    done = home.run("prune", DATABASE_URL=database_url)
    assert done.stdout.splitlines()[0] == "event bodies, older than 2.5 days: 1 removed (8 bytes)"
    assert (done.returncode, done.stderr) == (0, "")
    refused = home.run("prune", DATABASE_URL=login_url("nottwice_receiver"))
    assert refused.returncode == 2 and "Use the console's or the owner's." in refused.stderr


def test_whom_notices_name_is_forgotten_with_the_contents_of_their_sends(
    sends: Sends, provider: Provider, database: Database
) -> None:
    """What became of each recipient stays; who they were goes, and stays one each."""
    settled, waiting = sends.proposed(KEYED), sends.uncertain()
    sends.tried(settled, ACCEPTED)
    provider.says(
        "bounced",
        ACCEPTED.message_id,
        "ann@example.com",
        "bo@example.com",
        account="agentmail",
        detail="5.1.1",
    )
    provider.says("delivered", "<theirs>", "cy@example.com")
    provider.says("rejected", "<w>", "di@example.com", reference=sends.row(waiting).reference)
    assert pruned(database)["notices' recipients"] == 0
    sends.sql("UPDATE nottwice.notices SET noted_at = noted_at - interval '31 days'")
    assert (
        pruned(database)["notices' recipients"] == 1
    )  # of a message nobody knows; the others' sends are young
    sends.sql(
        "UPDATE nottwice.actions SET settled_at = settled_at - interval '31 days', version = version + 1"
    )
    sends.sql("UPDATE nottwice.notices SET needed_at = needed_at - interval '31 days'")
    assert pruned(database, dry_run=True)["notices' recipients"] == 2
    assert pruned(database)["notices' recipients"] == 2
    left = sends.rows("SELECT recipient, detail, what FROM nottwice.notices ORDER BY id")
    assert [tuple(row) for row in left] == [
        ("", "", "bounced"),
        ("", "", "bounced"),
        ("", "", "delivered"),
        ("di@example.com", "", "rejected"),
    ]
    assert [one.now.what for one in provider.shown(settled)] == ["bounced", "bounced"]
