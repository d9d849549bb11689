"""`nottwice retry`: who may, what is chosen, what the audit keeps; by the command line and beneath it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ledger.cli import app, retrying
from ledger.cli.retrying import Filter, Tried, ask_second, listed, not_set_aside, put_back
from ledger.database import Database
from ledger.records import Person, Role
from ledger.sign_in import people
from tests.fix_events import Ledger
from tests.fix_home import UNSAFE, Home

PEOPLE = """
[[console.people]]
name = "Bo Lindqvist"
email = "bo@example.com"
role = "engineer"

[[console.people]]
name = "Ana"
role = "support"
"""
SET_ASIDE = """UPDATE nottwice.events SET state = 'failed', due_at = NULL, ended_at = now(), attempts = 5, last_error = :error,
                      version = version + 1 WHERE id = ANY (:ids)"""


@pytest.fixture
def console(opened_as: Callable[[str], Database]) -> Database:
    return opened_as("nottwice_console")


def failed(book: Ledger, *keys: str, error: str = "ValueError: no", **changes: str) -> list[int]:
    ids = sorted(book.stored(*keys, **changes))
    book.run(SET_ASIDE, ids=ids, error=error)
    return ids


def somebody(console: Database, role: Role) -> Person:
    return console.run(lambda tx: people.person(tx, "local", "bo", "Bo", "bo@example.com", role))


def tried(console: Database, wanted: Filter, person: Person) -> list[Tried]:
    return list(put_back(console, listed(console, wanted), person, "it answers again", lambda _: None))


# ── Which ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_filter_takes_what_fits_all_of_it(book: Ledger, console: Database) -> None:
    book.stored("pending")
    a, b = failed(book, "a", "b")
    (other,) = failed(book, "c", source="till", type="sale", error="Timeout at the till")

    def ids(**wanted: object) -> list[int]:
        return [event.id for event in listed(console, Filter(**wanted))]  # type: ignore[arg-type]

    assert ids() == [a, b, other]
    assert ids(source="till") == ids(type="sale") == ids(error="timeout") == [other]
    assert ids(source="till", error="ValueError") == ids(namespace="elsewhere") == []
    assert ids(ids=(b, other), source="shop") == [b]


def test_a_long_list_is_read_in_pages(
    book: Ledger, console: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "PAGE", 3)
    ids = failed(book, *(f"k{n}" for n in range(8)))
    assert [event.id for event in listed(console, Filter())] == sorted(ids)


def test_numbers_that_cannot_be_tried_say_why(book: Ledger, console: Database) -> None:
    (pending,), (aside,) = book.stored("a"), failed(book, "b")
    assert not_set_aside(console, [pending, aside, 999_999]) == [
        Tried(pending, "is pending, not set aside"),
        Tried(999_999, "does not exist"),
    ]


# ── Put back ──────────────────────────────────────────────────────────────────────────────────────────


def test_each_goes_back_in_the_persons_name(book: Ledger, console: Database) -> None:
    ids = failed(book, "a", "b")
    person = somebody(console, Role.ENGINEER)
    assert tried(console, Filter(), person) == [Tried(n) for n in sorted(ids)]
    assert book.rows("SELECT DISTINCT state, attempts, attempts_max FROM nottwice.events") == [
        ("pending", 5, 10)
    ]
    assert book.rows(
        "SELECT entity_id, act, outcome, role, why, person_id FROM nottwice.audit ORDER BY id"
    ) == [(n, "try again", "done", "engineer", "it answers again", person.id) for n in sorted(ids)]


def test_what_changed_meanwhile_is_refused_and_the_audit_knows(book: Ledger, console: Database) -> None:
    first, second = failed(book, "a", "b")
    chosen, person = listed(console, Filter()), somebody(console, Role.ADMIN)
    book.run("UPDATE nottwice.events SET version = version + 1 WHERE id = :id", id=first)
    stale, done = put_back(console, chosen, person, "again", lambda _: None)
    assert "changed while you had it open" in stale.refusal and done == Tried(second)
    assert book.rows("SELECT entity_id, outcome FROM nottwice.audit ORDER BY id") == [
        (first, "refused"),
        (second, "done"),
    ]


def test_the_same_command_twice_is_one_decision(book: Ledger, console: Database) -> None:
    failed(book, "a")
    chosen, person = listed(console, Filter()), somebody(console, Role.ENGINEER)
    assert [one.refusal for one in put_back(console, chosen, person, "again", lambda _: None)] == [""]
    (twin,) = put_back(console, chosen, person, "again", lambda _: None)
    assert "Already done" in twin.refusal
    assert book.value("SELECT count(*) FROM nottwice.audit") == 1


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUPPORT, Role.AUDITOR])
def test_who_may_not_is_refused_on_record(book: Ledger, console: Database, role: Role) -> None:
    (event_id,) = failed(book, "a")
    (refused,) = tried(console, Filter(), somebody(console, role))
    assert "Engineer or admin" in refused.refusal
    assert book.event(event_id).state == "failed"
    assert book.rows("SELECT outcome, role FROM nottwice.audit") == [("refused", role.value)]


def test_who_may_not_is_refused_once_for_many(book: Ledger, console: Database) -> None:
    ids = failed(book, "a", "b", "c")
    answers = tried(console, Filter(), somebody(console, Role.VIEWER))
    assert [(one.event_id, "Engineer or admin" in one.refusal) for one in answers] == [
        (id_, True) for id_ in ids
    ]
    assert book.rows("SELECT entity, outcome, role FROM nottwice.audit") == [
        ("installation", "refused", "viewer")
    ]
    assert f"Asked for 3 events, {ids[0]} to {ids[2]}." in book.value("SELECT detail FROM nottwice.audit")


def test_who_may_not_is_refused_on_record_also_where_nothing_is_set_aside(
    book: Ledger, console: Database, login_url: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", login_url("nottwice_console"))
    (tmp_path / "nottwice.toml").write_text(UNSAFE + PEOPLE)
    book.stored("a")

    def said(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["retry", "--all", *arguments])
        return done.exit_code, done.output

    may_not = "You can read this. Engineer or admin tries it again."
    assert said("--as", "ana", "--reason", "x") == (1, f"Not tried: {may_not}\nTried again, as Ana: 0.\n")
    assert book.rows("SELECT entity, outcome, role, detail FROM nottwice.audit") == [
        ("installation", "refused", "support", f"{may_not} Asked for 0 events.")
    ]
    assert said("--source", "shop", "--dry-run") == (0, "Would be tried again: 0.\n")
    code, words = said("--source", "shpo", "--dry-run")
    assert (code, words.count("\n")) == (2, 1) and "did you mean shop?" in words


# ── The command ───────────────────────────────────────────────────────────────────────────────────────


def test_the_command_shows_then_tries_then_has_nothing_left(
    home: Home, book: Ledger, login_url: Callable[[str], str]
) -> None:
    home.configure(UNSAFE + PEOPLE)
    url = login_url("nottwice_console")
    (a,) = failed(book, "a")
    (b,) = failed(book, "\x1b[31mred", error="ValueError: first\nsecond \x1b[2J")
    shown = home.run("retry", "--all", "--dry-run", DATABASE_URL=url)
    assert shown.returncode == 0 and "Would be tried again: 2." in shown.stdout
    assert (
        f"event {b}: acme, shop invoice.paid, \ufffd[31mred; 5 attempts; ValueError: first second"
        in shown.stdout
    )
    assert "\x1b" not in shown.stdout and shown.stderr == ""
    assert book.event(a).state == "failed"

    done = home.run("retry", str(a), "999", "--as", "BO@example.com", "--reason", "fixed", DATABASE_URL=url)
    assert done.returncode == 1, "one number does not exist"
    assert done.stdout.splitlines() == [
        "event 999: not tried: does not exist",
        "Tried again, as Bo Lindqvist: 1.",
    ]
    assert (book.event(a).state, book.event(b).state) == ("pending", "failed")

    refused = home.run("retry", "--all", "--as", "ana", "--reason", "me too", DATABASE_URL=url)
    assert refused.returncode == 1 and "Engineer or admin" in refused.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name events by their numbers, or say --all"),
        (["7", "--all"], "Both numbers and --all were given. Name events by their numbers, or say --all"),
        (["--all"], "Say who does it and why"),
        (["7", "--as", "bo@example.com", "--reason", " "], "Say who does it and why"),
        (["7", "--as", "eve@example.com", "--reason", "x"], "known there: bo@example.com, Ana."),
    ],
)
def test_what_is_missing_is_said_before_anything_is_done(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nottwice.toml").write_text(PEOPLE)
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["retry", *arguments])
    assert done.exit_code == 2 and words in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("typed", ["99999999999999999999", "-1", "0", "seven"])
def test_what_is_no_number_of_a_request_is_said_in_a_sentence(typed: str) -> None:
    done = CliRunner().invoke(app, ["retry", "--agree", typed, "--as", "ana", "--reason", "x"])
    assert (done.exit_code, isinstance(done.exception, SystemExit)) == (2, True)
    assert "is no number of anything here" in " ".join(done.stderr.replace("│", "").split())


def test_who_agreed_and_was_stopped_carries_on_by_the_same_command(
    book: Ledger, console: Database, login_url: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", login_url("nottwice_console"))
    (tmp_path / "nottwice.toml").write_text(UNSAFE + PEOPLE)
    book.run("INSERT INTO nottwice.reprocess_limit (second_person_above) VALUES (1)")
    failed(book, "a", "b", "c")
    chosen = listed(console, Filter())
    eve = console.run(lambda tx: people.person(tx, "local", "eve", "Eve", "eve@example.com", Role.ENGINEER))
    bo = console.run(
        lambda tx: people.person(
            tx, "local", "bo@example.com", "Bo Lindqvist", "bo@example.com", Role.ENGINEER
        )
    )
    asked = ask_second(console, chosen, eve, "it answers", expires_s=60)
    assert asked is not None
    request = retrying.agree(console, asked[0], bo, "I looked")
    stopped = retrying.carried_out(console, request, bo, "I looked", lambda _: None)
    assert next(stopped).refusal == ""
    stopped.close()  # as by a signal, after the first

    def again() -> tuple[int, str]:
        done = CliRunner().invoke(
            app, ["retry", "--agree", str(asked[0]), "--as", "bo@example.com", "--reason", "on"]
        )
        return done.exit_code, done.stdout

    words = f"Carried on with request {asked[0]} of Eve, as Bo Lindqvist: 2 done (try again); 1 were done before, or had changed.\n"
    assert again() == (0, words)
    code, said = again()
    assert code == 1 and "Bo Lindqvist was first: agreed" in said


def test_a_workers_login_may_not_act_for_a_person(
    home: Home, book: Ledger, login_url: Callable[[str], str]
) -> None:
    home.configure(PEOPLE)
    failed(book, "a")
    done = home.run(
        *("retry", "--all", "--as", "bo@example.com", "--reason", "x"),
        DATABASE_URL=login_url("nottwice_worker"),
    )
    assert done.returncode == 2 and "Use the console's or the owner's." in done.stderr
