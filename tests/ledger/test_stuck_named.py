"""`nottwice set-aside` and `nottwice hand-back`: what is named, who may, what the audit keeps, and when it takes two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ledger.cli import app
from ledger.events import by_hand
from tests.fix_events import Ledger, worker
from tests.fix_home import UNSAFE

PEOPLE = """
[[console.people]]
name = "Bo"
email = "bo@example.com"
role = "engineer"

[[console.people]]
name = "Ana"
email = "ana@example.com"
role = "admin"

[[console.people]]
name = "Cy"
email = "cy@example.com"
role = "support"
"""
BO = ("--as", "bo@example.com", "--why", "it hangs")
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(login_url: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `nottwice …` under the console's login; the exit code, and what was said."""
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", login_url("nottwice_console"))
    (tmp_path / "nottwice.toml").write_text(UNSAFE + PEOPLE)

    def run(*arguments: object) -> tuple[int, str]:
        done = CliRunner().invoke(app, [str(one) for one in arguments])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    return run


def entries(book: Ledger) -> list[tuple[object, ...]]:
    sql = "SELECT act, entity, entity_id, outcome, role, why FROM nottwice.audit ORDER BY id"
    return [tuple(row) for row in book.rows(sql)]


def test_what_waits_or_is_in_hand_is_set_aside_and_its_worker_fenced(book: Ledger, command: Command) -> None:
    (held,) = book.stored("a")
    claimed = book.claim_one(worker())
    (waits,) = book.stored("b")
    shown = f"event {held}: acme, shop invoice.paid, a; 1 attempts\nevent {waits}: acme, shop invoice.paid, b; 0 attempts\n"
    assert command("set-aside", held, waits, "--dry-run") == (0, shown + "Would be set aside: 2.\n")
    assert command("set-aside", waits, held, waits, *BO) == (0, "Set aside, as Bo: 2.\n")
    assert (book.event(held).state, book.event(waits).state) == ("failed", "failed")
    assert entries(book) == [
        ("set aside", "event", n, "done", "engineer", "it hangs") for n in sorted((held, waits))
    ]
    assert book.complete(claimed) == set()  # its worker completes nothing any more
    again = f"event {held}: not set aside: It is set aside already.\nevent 999: not set aside: It does not exist.\n"
    assert command("set-aside", held, 999, *BO) == (1, again + "Set aside, as Bo: 0.\n")


def test_what_is_in_hand_is_handed_back_and_nothing_else(book: Ledger, command: Command) -> None:
    (held,) = book.stored("a")
    claimed = book.claim_one(worker())
    (waits,) = book.stored("b")
    told = f"event {waits}: not handed back: No worker has it: it is pending.\n"
    assert command("hand-back", held, waits, *BO) == (1, told + "Handed back, as Bo: 1.\n")
    row = book.event(held)
    assert (row.state, row.attempts) == ("pending", 1)
    assert book.complete(claimed) == set()  # its worker completes nothing any more
    assert entries(book) == [("hand back", "event", held, "done", "engineer", "it hangs")]


def test_who_may_not_is_refused_on_record_and_without_a_name_nothing_begins(
    book: Ledger, command: Command
) -> None:
    one, two = sorted(book.stored("a", "b"))
    may_not = "You can read this. Engineer or admin sets it aside."
    code, said = command("set-aside", one, two, "--as", "cy@example.com", "--reason", "x")
    assert (code, said.count(may_not)) == (1, 2) and said.endswith("Set aside, as Cy: 0.\n")
    assert entries(book) == [("set aside", "installation", 1, "refused", "support", "x")]
    code, said = command("set-aside", one, "--as", "bo@example.com")
    assert code == 2 and "Say who does it and why: --as EMAIL --reason TEXT." in said
    assert {book.event(n).state for n in (one, two)} == {"pending"}


def test_many_take_a_second_person_who_carries_them_out(book: Ledger, command: Command) -> None:
    book.run("INSERT INTO nottwice.reprocess_limit (second_person_above) VALUES (1)")
    ids = sorted(book.stored("a", "b"))
    code, said = command("set-aside", *ids, *BO)
    assert code == 1 and "A second person must agree. Somebody else: nottwice retry --agree 1" in said
    assert {book.event(n).state for n in ids} == {"pending"}
    agreed = command("retry", "--agree", 1, "--as", "ana@example.com", "--reason", "I looked")
    assert agreed == (0, "Agreed to request 1 of Bo, as Ana: 2 done (set aside).\n")
    assert {book.event(n).state for n in ids} == {"failed"}
    assert book.value("SELECT act FROM nottwice.stuck_requests") == by_hand.SET_ASIDE
