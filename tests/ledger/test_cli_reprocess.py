"""`nottwice reprocess`: it looks unless told to go, says what would happen and to whom, and each step has its code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ledger import reprocess
from ledger.cli import app, main
from ledger.records import Role
from tests.fix_reprocess import POST, Shop

PEOPLE = """
[database]
allow_unsafe = true

[reprocess]
second_person_above = 10

[[console.people]]
name = "Bo Lindqvist"
email = "bo@example.com"
role = "engineer"

[[console.people]]
name = "Ana"
email = "ana@example.com"
role = "support"

[[console.people]]
name = "Olga"
email = "olga@example.com"
role = "auditor"
"""
Command = Callable[..., Result]
BO = ("--as", "bo@example.com", "--reason", "wrong tax rate")
OLGA = ("--as", "olga@example.com", "--reason", "let me try")
HUGE = "99999999999999999999999"
ANA = ("--as", "ana@example.com", "--reason", "the customer asked")


@pytest.fixture
def command(
    shop: Shop, login_url: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """The command in this process, under the console's login."""

    def run(*arguments: str | int) -> Result:
        (tmp_path / "reprocess.toml").write_text(PEOPLE + POST)
        monkeypatch.setenv("NOTTWICE_CONFIG", str(tmp_path / "reprocess.toml"))
        monkeypatch.setenv("DATABASE_URL", login_url("nottwice_console"))
        return CliRunner().invoke(app, ["reprocess", *map(str, arguments)])

    return run


def test_it_looks_then_goes_then_shows_each_result(shop: Shop, command: Command) -> None:
    one, two = shop.sell(2)
    shop.settle()
    shop.workshop.run("UPDATE nottwice.events SET event_key = E'\\x1b[31mred' WHERE id = :id", id=two)
    shop.workshop.run("UPDATE nottwice.events SET content_digest = NULL WHERE id = :id", id=two)
    looked = command("--source", "shop")
    lines = looked.stdout.splitlines()
    assert looked.exit_code == 1, "one would be skipped"
    assert lines[1] == (
        f"event {two}: acme, shop sale, \ufffd[31mred; completed; would be skipped: "
        "Its content is no longer kept ([retention] event_bodies_days)."
    )
    assert lines[2] == "Their actions stand, and none goes out again: 1 receipt sent."
    assert lines[3].startswith("Would be worked again: 1 of 2, 10 in a second. List ")
    assert shop.workshop.value("SELECT count(*) FROM nottwice.reprocess_runs") == 0
    shown = lines[3].split("List ")[1].rstrip(".")

    asked = command("--source", "shop", "--go", "--list", shown, *BO)
    assert asked.exit_code == 1 and "Run 1 begins: 1 rows." in asked.stdout
    assert shop.finish(1) == [
        ("done", ""),
        ("skipped", "Its content is no longer kept ([retention] event_bodies_days)."),
    ]
    seen = command("show", 1, "--wait")
    assert seen.exit_code == 1
    assert "done; actions: 1 stand, 0 would be new, 0 would differ" in seen.stdout
    assert "recompute  done  2 of 2, 1 skipped  Bo Lindqvist  source shop · wrong tax rate" in seen.stdout
    (listed,) = command("list", "--json").stdout.splitlines()
    facts = json.loads(listed)
    assert (facts["run"], facts["state"], facts["asked_by"], facts["done"]) == (1, "done", "Bo Lindqvist", 1)

    other = command("--event", one, "--go", "--list", "abc", *BO)
    assert other.exit_code == 1 and "The list is no longer the one that was shown" in other.stderr


def test_a_repeat_names_its_recipients_and_waits_for_a_second_person(shop: Shop, command: Command) -> None:
    shop.sell()
    shop.settle()
    (one,) = [action[0] for action in shop.actions()]
    looked = command("--mode", "repeat", "--action", one, "--as", "ana@example.com")
    assert f"action {one}: acme, receipt, receipt:1; sent; to ann@example.com" in looked.stdout
    assert "It takes a second person" in looked.stdout and looked.exit_code == 0
    assert "ann@example.com" not in command("--mode", "repeat", "--action", one).stdout
    asked = command("--mode", "repeat", "--action", one, "--go", *BO)
    assert (
        asked.exit_code == 0
        and "Run 1 waits for a second person: what goes out cannot be taken back." in asked.stdout
    )
    assert shop.turn() is None

    alone = command("approve", 1, *BO)
    assert alone.exit_code == 1 and "agrees to it" in alone.stderr
    assert [entry[0] for entry in shop.entries("reprocess")][-1] == "agree to a run"
    agreed = command("approve", 1, *ANA)
    assert (agreed.exit_code, agreed.stdout) == (0, "Run 1 begins.\n")
    again = command("approve", 1, *ANA)
    assert again.exit_code == 1 and "Ana was first: agreed" in again.stderr
    shop.finish(1)
    assert command("cancel", 1, *BO).exit_code == 1
    assert f"action {one}: receipt, receipt:1: done: action 2, approved" in command("show", 1).stdout


def test_findings_are_named_and_their_text_is_read_on_record(shop: Shop, command: Command) -> None:
    (event,) = shop.sell()
    shop.settle()
    shop.text, shop.keys = "New \x1b[2J words.", ("receipt:{id}", "thanks:{id}")
    assert command("--mode", "preview", "--event", event, "--go", *BO).exit_code == 0
    shop.finish(1)
    seen = command("show", 1, "--as", "ana@example.com").stdout
    assert (
        f"finding 1: event {event}: receipt, receipt:{event}; to ann@example.com: would differ from action 1"
        in seen
    )
    assert f"finding 2: event {event}: receipt, thanks:{event}; to ann@example.com: would be new" in seen
    assert "ann@" not in command("show", 1, "--json").stdout
    assert command("show", 1, "--finding", 1).exit_code == 2, "nobody is named"
    text = command("show", 1, "--finding", 1, *ANA)
    assert text.exit_code == 0 and '"text": "New' in text.stdout and "\x1b" not in text.stdout
    assert shop.entries("finding") == [("reveal", "Ana", None, None)]
    both = command("--mode", "repeat", "--finding", 1, "--finding", 2, "--json", "--as", "ana@example.com")
    first, second, whole = map(json.loads, both.stdout.splitlines())
    assert (first["state"], second["state"], whole["going"]) == ("differs", "new", 2)
    assert first["recipients"] == ["ann@example.com"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Say which events"),
        (["--all", "--source", "shop"], "--all and --source were both given."),
        (["--all", "--event", "3"], "--all and --event were both given. Say which events"),
        (
            ["--source", "shop", "--since", "2026-11-30", "--until", "2026-11-29"],
            "is not before --until 2026-11-29",
        ),
        (["--mode", "again", "--all"], "--mode again is not known. One of: preview, recompute, repeat."),
        (["--all", "--action", "3"], "are for --mode repeat"),
        (["--mode", "repeat", "--all"], "chosen one by one"),
        (["--mode", "repeat", "--action", "3", "--source", "shop"], "chosen one by one"),
        (["--state", "gone"], "--state gone is not known"),
        (["--since", "yesterday"], "--since yesterday is no time"),
        (["--all", "--go"], "Say who does it and why"),
        (["--all", "--go", "--as", "bo@example.com", "--reason", " "], "Say who does it and why"),
        (["approve", "1", "--as", "bo@example.com"], "Say who does it and why"),
    ],
)
def test_what_is_missing_or_mistyped_is_one_sentence(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["reprocess", *arguments])
    assert done.exit_code == 2 and words in done.stderr and done.stderr.count("\n") == 1


def test_an_unknown_run_and_an_unknown_person_are_one_sentence(shop: Shop, command: Command) -> None:
    unknown = command("show", 7)
    assert unknown.exit_code == 2 and "There is no run 7." in unknown.stderr
    stranger = command("approve", 7, "--as", "eve@example.com", "--reason", "x")
    assert (
        stranger.exit_code == 2
        and "known there: bo@example.com, ana@example.com, olga@example.com" in stranger.stderr
    )
    assert command("cancel", 7, *BO).exit_code == 1
    nothing = command("--source", "nottwice", "--since", "2026-11-30", "--go", *BO)
    assert nothing.exit_code == 2, "nothing of that source was ever here"
    assert command("list").stdout == ""


def test_a_mistyped_selection_is_one_sentence_and_an_empty_one_an_answer(
    shop: Shop, command: Command
) -> None:
    shop.sell()
    mistyped = {
        (
            "--source",
            "shpo",
        ): "--source shpo stands neither in the configuration nor in any event; did you mean shop?",
        (
            "--type",
            "sael",
        ): "--type sael stands neither in the configuration nor in any event; did you mean sale?",
        (
            "--namespace",
            "elsewhere",
        ): "--namespace elsewhere stands neither in the configuration nor in any event; known here are acme.",
    }
    for arguments, words in mistyped.items():
        done = command(*arguments)
        assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"{words}\n")
    empty = command("--source", "shop", "--until", "2020-01-01")
    assert (empty.exit_code, empty.stdout) == (
        0,
        "No event fits what was asked for.\nThere is nothing to do.\n",
    )
    asked = command("--source", "shop", "--until", "2020-01-01", "--go", *BO)
    assert asked.exit_code == 1 and "nothing on this list that can be done" in asked.stderr


def test_who_may_not_is_told_so_at_every_step_and_the_try_is_on_record(shop: Shop, command: Command) -> None:
    shop.sell()
    shop.settle()
    assert command("--mode", "repeat", "--action", 1, "--go", *BO).exit_code == 0
    said = [
        command(*arguments, *OLGA)
        for arguments in (
            ("approve", 1),
            ("decline", 1),
            ("cancel", 1),
            ("--mode", "repeat", "--action", 1, "--go"),
            ("--source", "shop", "--until", "2020-01-01", "--go"),
        )
    ]
    assert [(one.exit_code, one.stderr.strip()) for one in said] == [
        (1, "You can read this. Admin or support agrees to it."),
        (1, "You can read this. Who may agree may decline."),
        (1, "You can read this. Who may ask for it may cancel it."),
        (1, "You can read this. Admin or engineer or support may repeat external actions."),
        (1, "You can read this. Admin or engineer may recompute local results."),
    ]
    rows = shop.workshop.rows(
        """SELECT a.act, a.outcome, a.state_after FROM nottwice.audit a JOIN nottwice.people p ON p.id = a.person_id
           WHERE p.name = 'Olga' ORDER BY a.id"""
    )
    assert [tuple(row) for row in rows] == [
        ("agree to a run", "refused", "waiting"),
        ("decline a run", "refused", "waiting"),
        ("cancel a run", "refused", "waiting"),
        ("reprocess: repeat", "refused", None),
        ("reprocess: recompute", "refused", None),
    ]


def test_the_same_list_again_names_the_run_that_waits_until_it_waited_too_long(
    shop: Shop, command: Command
) -> None:
    shop.sell()
    shop.settle()
    ask = ("--mode", "repeat", "--action", 1, "--go", *BO)
    assert command(*ask).exit_code == 0
    again = command(*ask)
    assert again.exit_code == 1
    assert again.stderr == "Run 1 asks for exactly this and waits for a second person.\n"
    shop.workshop.run("UPDATE nottwice.reprocess_runs SET expires_at = now()")
    assert "Run 2 waits for a second person" in command(*ask).stdout


def test_what_went_out_through_another_run_voids_the_request(shop: Shop, command: Command) -> None:
    shop.sell()
    shop.settle()
    asked = [
        command("--mode", "repeat", "--action", 1, "--go", "--as", who, "--reason", "x").exit_code
        for who in ("bo@example.com", "ana@example.com")
    ]
    assert asked == [0, 0]
    shop.decide(reprocess.agree, 2, shop.person(Role.ADMIN))
    shop.finish(2)
    void = command("approve", 1, *ANA)
    went = "Send 1 (receipt): It went out again already: choose the newest of its key."
    assert (void.exit_code, void.stderr) == (
        1,
        f"Not agreed: {went} Ask for the others anew; this run is void.\n",
    )
    assert f"Nobody can agree to it any more: {went}" in command("show", 1).stdout
    assert shop.state(1) == "waiting" and len(shop.actions()) == 2


def test_a_finding_is_shown_only_of_its_own_run_and_none_leaves_no_entry(
    shop: Shop, command: Command
) -> None:
    (event,) = shop.sell()
    shop.settle()
    shop.text = "New words."
    for run in (1, 2):
        assert command("--mode", "preview", "--event", event, "--go", *BO).exit_code == 0
        shop.finish(run)
    for run, finding in ((1, 2), (1, 43)):
        none = command("show", run, "--finding", finding, *ANA)
        assert (none.exit_code, none.stderr) == (2, f"Run {run} has no finding {finding}.\n")
    assert shop.entries("finding") == []
    assert "New words." in command("show", 2, "--finding", 2, *ANA).stdout


NO_NUMBERS = [
    ["reprocess", "show", HUGE],
    ["reprocess", "show", "1", "--finding", HUGE],
    ["reprocess", "approve", HUGE, *ANA],
    ["reprocess", "decline", HUGE, *ANA],
    ["reprocess", "cancel", "0", *ANA],
    ["reprocess", "--event", HUGE],
    ["reprocess", "--event", "-3"],
    ["reprocess", "--mode", "repeat", "--action", HUGE],
    ["reprocess", "--mode", "repeat", "--finding", "three"],
    ["retry", HUGE, "--dry-run"],
    ["retry", "7", "1" * 19, *BO],
    ["audit", "verify", "--kept", f"{HUGE}:{'00' * 32}"],
]


def test_a_number_that_is_none_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    for arguments in NO_NUMBERS:
        monkeypatch.setattr(sys, "argv", ["nottwice", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code, said.out, said.err.count("\n")) == (2, "", 1), arguments
        assert "is no number of anything here" in said.err or "--kept is NUMBER:SEAL" in said.err
