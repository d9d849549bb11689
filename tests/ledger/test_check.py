"""`nottwice check`: each thing that somebody should look at is found, from when it is late, and how badly."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ledger import check, workers
from ledger.audit import memory as audit_memory
from ledger.audit.memory import Break, Verification
from ledger.check import Level, findings, look
from ledger.cli import app
from ledger.database import Database
from ledger.figures import refusals
from ledger.figures.refusals import Refusal
from ledger.receiver.refused import STATUS
from ledger.settings import AlertSettings, load
from tests.fix_events import Ledger, delivery, unusable, worker
from tests.fix_sends import KEYED, KEYLESS, TO_APPROVE, UNKNOWN, Sends

Found = Callable[..., dict[str, Level]]
W = worker()


@pytest.fixture
def found(book: Ledger) -> Found:
    """What is found, by its sentence; a worker is alive."""
    book.database.run(lambda tx: workers.register(tx, W))

    def look_now(*, receives: bool = False, **limits: Any) -> dict[str, Level]:
        seen = book.database.run(lambda tx: findings(tx, AlertSettings(**limits), receives=receives))
        return {finding.what: finding.level for finding in seen}

    return look_now


def one(found: dict[str, Level]) -> tuple[str, Level]:
    ((what, level),) = found.items()
    return what, level


def test_a_healthy_ledger_has_no_findings(found: Found, book: Ledger) -> None:
    book.stored("a")
    assert found() == {}


def test_without_a_worker_it_is_critical(database: Database) -> None:
    seen = database.run(lambda tx: findings(tx, AlertSettings()))
    assert [finding.level for finding in seen] == [Level.CRITICAL]
    assert "No worker is alive" in seen[0].what


def test_a_silent_worker_is_named_and_critical_when_it_is_the_last(found: Found, book: Ledger) -> None:
    book.database.run(lambda tx: workers.register(tx, worker(name="quiet\x1b[2J\nfake: line")))
    book.run("UPDATE nottwice.workers SET seen_at = now() - interval '200 s' WHERE name <> 'w'")
    what, level = one(found())
    assert level is Level.WARNING and "gave no sign for 3 min" in what
    assert "Worker quiet\ufffd[2J fake: line on" in what, "text from outside stays within its line"
    book.run("UPDATE nottwice.workers SET seen_at = now() - interval '200 s'")
    assert max(found().values()) is Level.CRITICAL and len(found()) == 3


def test_a_worker_that_was_started_again_or_stopped_is_not_missed(found: Found, book: Ledger) -> None:
    book.run(
        """INSERT INTO nottwice.workers (id, name, host, started_at, seen_at)
           SELECT gen_random_uuid(), name, host, now() - interval '1 h', now() - interval '120 s' FROM nottwice.workers"""
    )
    book.database.run(
        lambda tx: workers.register(tx, gone := worker(name="gone")) or workers.stop(tx, gone.id)
    )
    book.run("UPDATE nottwice.workers SET seen_at = now() - interval '120 s' WHERE name = 'gone'")
    assert found() == {}


def test_who_refused_its_configuration_is_named_until_it_reads_one(found: Found, book: Ledger) -> None:
    """Since when is told from the first refusal on, however often it is asked and gives a sign."""
    door = worker(name="receiver-8080")

    def beat(*, refused: bool) -> None:
        book.database.run(
            lambda tx: workers.register(tx, door, kind="receiver", host="west", refused=refused)
        )

    beat(refused=False)
    assert found() == {}
    beat(refused=True)
    book.run("UPDATE nottwice.workers SET refused_at = refused_at - interval '5 min' WHERE name <> 'w'")
    beat(refused=True)
    what, level = one(found())
    assert level is Level.WARNING and what.startswith(
        "Receiver receiver-8080 on west refused its configuration 5 min ago and goes on with what it read before."
    )
    said = {line.topic: line.now for line in book.database.run(lambda tx: check.health(tx, load(), ())).lines}
    assert said[check.Topic.CONFIGURATION] == "can be used; 1 running go on with one of before"
    beat(refused=False)
    assert found() == {}


def test_without_a_receiver_nothing_is_accepted(found: Found, book: Ledger) -> None:
    assert found() == {}, "a ledger without sources needs none"
    what, level = one(found(receives=True))
    assert level is Level.CRITICAL and "No receiver is alive" in what
    book.database.run(lambda tx: workers.register(tx, worker(name="receiver-8080"), kind="receiver"))
    assert found(receives=True) == {}


def test_a_source_whose_requests_are_refused_is_named_with_the_reason(found: Found, book: Ledger) -> None:
    def refuse(n: int, source: str, reason: Refusal) -> None:
        book.database.run(lambda tx: refusals.add(tx, W.id, {(source, reason): n}))

    refuse(10, "shop", Refusal.TOO_LARGE)
    refuse(999, "", Refusal.UNKNOWN_SOURCE)
    assert found() == {}
    refuse(1, "shop", Refusal.TOO_LARGE)
    what, level = one(found())
    assert level is Level.WARNING
    assert what == (
        "The front door refused 11 requests of shop in the last hour: larger than [receiver] body_bytes_max."
    )
    assert found(refused_max=11) == {}


@pytest.mark.parametrize("reason", STATUS)
def test_each_refusal_of_a_source_has_its_words(found: Found, book: Ledger, reason: Refusal) -> None:
    book.database.run(lambda tx: refusals.add(tx, W.id, {("shop", reason): 11}))
    assert one(found())[1] is Level.WARNING


@pytest.mark.parametrize(("waits_s", "level"), [(299, None), (330, Level.WARNING), (1600, Level.CRITICAL)])
def test_due_work_that_waits(found: Found, book: Ledger, waits_s: int, level: Level | None) -> None:
    book.stored("a")
    book.run("UPDATE nottwice.events SET due_at = now() - make_interval(secs => :s)", s=waits_s)
    assert list(found().values()) == ([level] if level else [])
    assert found(pending_s=2000) == {}


def test_a_lease_that_nobody_took_back(found: Found, book: Ledger) -> None:
    book.stored("a", "b")
    book.claim(W)
    book.run("UPDATE nottwice.events SET lease_until = now() - interval '20 s'")
    assert found() == {}, "a sweep may still come"
    book.run("UPDATE nottwice.events SET lease_until = now() - interval '100 s'")
    what, level = one(found())
    assert (what, level) == (
        "2 leases ran out, the first 100 s ago, and were not taken back: does a worker sweep?",
        Level.WARNING,
    )


def test_what_is_set_aside_unhandled_in_conflict_or_in_quarantine(found: Found, book: Ledger) -> None:
    (event_id,) = book.stored("a")
    book.accept(delivery("a", body=b"{}", content_digest=b"other" * 6 + b"ot"), unusable(b"?"))
    book.stored("b", type="unheard.of")
    book.database.run(lambda tx: tx.execute(SET_ASIDE, id=event_id) and None)
    assert sorted(found()) == [
        "Deliveries in quarantine, which have no usable key or shape: 1.",
        "Events that were set aside after their last attempt: 1.",
        "Open conflicts, where the same key came with other content: 1.",
        "Waiting events that no worker has a handler for: 1.",
    ]
    assert set(found().values()) == {Level.WARNING}
    assert found(failed_max=1, unhandled_max=1, conflicts_max=1, quarantined_max=1) == {}


SET_ASIDE = """UPDATE nottwice.events SET state = 'failed', due_at = NULL, ended_at = now(), version = version + 1
               WHERE id = :id"""


def test_an_uncertain_send_and_one_to_approve_wait_for_a_person(sends: Sends, database: Database) -> None:
    database.run(lambda tx: workers.register(tx, W))
    waiting = sends.proposed(KEYLESS)
    sends.answered(sends.started(sends.claimed()), UNKNOWN)
    sends.proposed(TO_APPROVE)

    def seen(**limits: float) -> list[str]:
        found = database.run(lambda tx: findings(tx, AlertSettings(**limits)))
        return [f"{finding.level.name} {finding.what}" for finding in found]

    assert seen() == []
    database.run(
        lambda tx: (
            tx.execute(
                """UPDATE nottwice.actions SET version = version + 1, created_at = created_at - interval '2 h',
                      review_since = review_since - interval '6 h'"""
            )
            and None
        )
    )
    assert sends.row(waiting).state == "needs_review"
    assert seen() == [
        "CRITICAL Uncertain sends wait for a person, 1 in all; the oldest for 6 h.",
        "WARNING A send waits for approval for 2 h.",
    ]


def test_a_send_that_is_not_taken_and_a_paused_account(sends: Sends, database: Database) -> None:
    database.run(lambda tx: workers.register(tx, W))
    sends.proposed(KEYED)
    with database.transaction() as tx:
        tx.execute("UPDATE nottwice.actions SET due_at = now() - interval '10 min', version = version + 1")
        tx.execute(
            """INSERT INTO nottwice.provider_pauses (account, paused_until, reason, since)
               VALUES ('agentmail', now() + interval '1 min', E'It is\\nlimited.', now() - interval '10 min'),
                      ('over', now() - interval '1 s', 'over', now())"""
        )
        found = findings(tx, AlertSettings())
    assert [finding.level for finding in found] == [Level.WARNING, Level.WARNING]
    assert found[0].what == "The oldest due send waits for 10 min."
    assert found[1].what.startswith("Nothing is sent by account agentmail until ")
    assert found[1].what.endswith("since 10 min: It is limited.")


def test_an_audit_that_nobody_seals(found: Found, book: Ledger) -> None:
    book.run(
        """INSERT INTO nottwice.audit (role, act, entity, entity_id, outcome)
           VALUES ('policy', 'looked', 'installation', 1, 'done')"""
    )
    book.run("UPDATE nottwice.audit_unsealed SET since = now() - interval '90 s'")
    what, level = one(found())
    assert (level, what) == (Level.WARNING, "The audit is not sealed: its oldest open entry is 90 s old.")


def test_a_record_whose_last_check_found_it_broken(found: Found, book: Ledger) -> None:
    broken = Break(7, "Entry 7 was changed after it was sealed.")
    for last, n in ((Verification(6, b"", broken, None, 0), 1), (Verification(9, b"", None, None, 0), 0)):
        book.database.run(lambda tx, last=last: audit_memory.record(tx, last, None))  # type: ignore[misc]
        levels = [(level, broken.words in what) for what, level in found().items()]
        assert levels == [(Level.CRITICAL, True)] * n


@pytest.mark.parametrize("login", ["nottwice_console", "nottwice_worker", "postgres"])
def test_it_asks_with_the_login_it_is_given(
    login: str, login_url: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", login_url(login))
    (only,) = look(load())
    assert "No worker is alive" in only.what


def test_a_database_that_is_away_or_of_another_version_is_the_finding(
    database: Database, login_url: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    (asleep,) = look(load())
    assert asleep.level is Level.CRITICAL and "is absent, so nothing is accepted" in asleep.what
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    (away,) = look(load())
    assert away.level is Level.CRITICAL and "database" in away.what
    monkeypatch.setenv("DATABASE_URL", login_url("nottwice_console"))
    database.run(
        lambda tx: tx.execute("INSERT INTO nottwice.schema_files VALUES ('9999_later.sql', '')") and None
    )
    (newer,) = look(load())
    assert newer.level is Level.CRITICAL and "9999_later.sql" in newer.what


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 days")]
)
def test_a_duration_is_as_precise_as_it_matters(seconds: float, words: str) -> None:
    assert check.duration(seconds) == words


def test_the_command_says_each_in_a_line_and_exits_by_the_worst(
    book: Ledger,
    found: Found,
    login_url: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", login_url("nottwice_console"))

    def checked() -> tuple[int, list[str]]:
        done = CliRunner().invoke(app, ["check"])
        return done.exit_code, [line.split(":")[0] for line in done.stdout.splitlines()]

    assert checked() == (0, ["healthy"])
    book.stored("a", type="unheard.of")
    assert checked() == (1, ["warning"])
    book.stored("b")
    book.run("UPDATE nottwice.events SET due_at = now() - interval '1 h'")
    assert checked() == (2, ["critical", "warning"])


def test_a_receiver_that_went_silent_is_named(found: Found, book: Ledger) -> None:
    for name in ("door-1", "door-2"):
        book.database.run(lambda tx, name=name: workers.register(tx, worker(name=name), kind="receiver"))
    assert found(receives=True) == {}
    book.run("UPDATE nottwice.workers SET seen_at = now() - interval '2 min' WHERE name = 'door-1'")
    what, level = one(found(receives=True))
    assert level is Level.WARNING and what.startswith("Receiver door-1 on ") and what.endswith(" for 2 min.")


def test_the_manual_has_every_limit_with_its_default() -> None:
    page = Path(check.__file__).parents[2] / "docs" / "command-line.md"
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([\d.]+) \|", page.read_text("utf-8"), re.MULTILINE)
    told = {name: float(default) for names, default in rows for name in re.findall(r"\w+", names)}
    assert told == {name: float(value) for name, value in AlertSettings()}
