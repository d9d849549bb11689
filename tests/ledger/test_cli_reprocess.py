"""`nottwice reprocess`: it looks unless told to go, says what would happen and to whom, and each step has its code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ledger.cli import app
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
"""
Command = Callable[..., Result]
BO = ("--as", "bo@example.com", "--reason", "wrong tax rate")
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
        (["--all", "--source", "shop"], "Say which events"),
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
    assert stranger.exit_code == 2 and "known there: bo@example.com, ana@example.com" in stranger.stderr
    assert command("cancel", 7, *BO).exit_code == 1
    nothing = command("--source", "elsewhere", "--go", *BO)
    assert nothing.exit_code == 1 and "nothing on this list" in nothing.stderr
    assert command("list").stdout == ""
