"""Health: the heading is the first line of `nottwice check`, the table all that it looks at; what an admin does there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

from dashboard import session
from dashboard.screens.health import as_title
from ledger import workers
from ledger.accounts import pauses
from ledger.check import Topic
from ledger.cli import app as cli
from ledger.figures import samples
from ledger.records import Worker
from tests.dashboard.conftest import App
from tests.dashboard.test_app import titles
from tests.fix_seed import House, full

HOSTILE = "post-[x](https://evil.example)"
PAGES = [(0, "support"), (1, "admin"), (2, "engineer")]


def receiver(house: House) -> None:
    door = Worker(house.writer, "door")
    house.db.run(lambda tx: workers.register(tx, door, kind="receiver"))


def table(at: AppTest) -> dict[str, tuple[str, str, str]]:
    """Now, state and what to do, by the check's name."""
    assert not at.exception, at.exception
    rows = at.dataframe[0].value
    return {
        row["Check"]: (row["Now"], row["State"][0], row["What to do"])
        for row in rows.to_dict(orient="records")
    }


def rehearsed() -> None:
    """Until the process that was asked whether it could start has answered."""
    apart = session.house()._refused_at_a_start
    until = time.monotonic() + 40
    while apart.glance().figures is None and time.monotonic() < until:
        time.sleep(0.02)
    session.house().health.forget()


def paused(house: House, account: str = HOSTILE) -> None:
    house.db.run(lambda tx: pauses.pause(tx, account, "It said: 429 **slow down**", retry_after_s=600))


def test_a_healthy_house_says_so_and_shows_everything_that_is_looked_at(app: App, house: House) -> None:
    house.workers(("w-1", 0.5))
    receiver(house)
    at = app("health", person=2)
    assert titles(at) == ["Healthy. Nothing needs anybody."]
    lines = table(at)
    assert set(lines) >= {topic.value for topic in Topic} - {Topic.DATABASE.value, Topic.CONFIGURATION.value}
    assert lines["Running workers"][0] == lines["Running receivers"][0] == "1 alive"
    assert {state for _, state, _ in lines.values()} == {"✓ in order"}
    assert lines["Audit chain"][0] == "never checked" and lines["Last purge"][0] == "never"
    assert not at.button or all("Resume" not in button.label for button in at.button)


def test_the_page_and_the_command_never_disagree(app: App, house: House) -> None:
    full(house)
    paused(house)
    app("health", person=2)
    rehearsed()
    at = app("health", person=2)
    assert table(at)["Configuration"][:2] == ("can be used", "✓ in order")
    printed = CliRunner().invoke(cli, ["check"])  # in this process's environment, which is the console's
    first, *others = printed.stdout.splitlines()
    assert printed.exit_code == 2 and titles(at) == [as_title(first)]
    told = [str(block.proto.body) for block in at.main if block.type == "html"]
    for line in others[:2]:
        level, _, what = line.partition(": ")
        assert any(f"{level.capitalize()}:" in words and what[:30] in words for words in told), line
    lines = table(at)
    assert (
        lines["Running receivers"][1:] == ("✕ critical", lines["Running receivers"][2])
        and lines["Running receivers"][2]
    )
    assert lines["Paused accounts"][0] == HOSTILE and lines["Paused accounts"][1] == "! warning"
    assert at.dataframe[0].value["State"].iloc[0] == ["✕ critical"], "what is found comes first"
    assert lines["Set aside"][0] == "1" and lines["Nobody handles"][0] == "1"


@pytest.mark.parametrize(("person", "role"), PAGES)
def test_everybody_reads_and_an_admin_acts(app: App, house: House, person: int, role: str) -> None:
    house.workers(("w-1", 0.5))
    paused(house)
    house.run("UPDATE nottwice.installation SET place = 'server 1, database 2, table 3'")
    at = app("health", person=person)
    labels = {button.label for button in at.button}
    assert (
        ("Resume post- x https evil example" in labels)
        == ("Let it send again" in labels)
        == (role == "admin")
    )
    assert not any("(https://evil" in one.value for one in (*at.markdown, *at.title, *at.caption))
    said = [caption.value for caption in at.caption]
    assert ("You can read this. An admin resumes an account." in said) == (role != "admin")


def test_an_admin_ends_a_pause_with_a_reason_once(app: App, house: House) -> None:
    house.workers(("w-1", 0.5))
    paused(house, "agentmail")
    first, second = app("health", person=1, charts=True), app("health", person=1, charts=True)
    nothing = resumed(first, "")
    assert [one.value for one in nothing.warning] == ["**Not done.** Please say why."] and standing(house)
    done = resumed(nothing, "their page says it is mended")
    assert any("Done." in one.value for one in done.success) and standing(house) == []
    assert "Paused accounts" in table(done) and table(done)["Paused accounts"][0] == "none"
    late = resumed(second, "me too")
    assert any("Already done: you resumed this account" in one.value for one in late.info)
    assert entries(house) == [("resume", "done", "account agentmail", "their page says it is mended")]


def resumed(at: AppTest, why: str) -> AppTest:
    (field,) = [one for one in at.text_input if str(one.key).startswith("why_resume")]
    field.set_value(why)
    (button,) = [one for one in at.button if one.label == "Resume agentmail"]
    return button.click().run()


def standing(house: House) -> list[str]:
    return [one.account for one in house.db.run(pauses.standing)]


def entries(house: House) -> list[tuple[str, str, str, str]]:
    sql = "SELECT act, outcome, detail, why FROM nottwice.audit ORDER BY id"
    return [tuple(row) for row in house.db.run(lambda tx: tx.all(sql))]  # type: ignore[misc]


def test_an_admin_releases_what_was_restored(app: App, house: House) -> None:
    house.workers(("w-1", 0.5))
    house.run("UPDATE nottwice.installation SET place = 'server 1, database 2, table 3'")
    at = app("health", person=1, charts=True)
    assert titles(at)[0].startswith("Critical: Nothing is sent: It is in another database than it was.")
    (button,) = [one for one in at.button if one.label == "Let it send again"]
    at = button.click().run()
    assert [one.value for one in at.warning] == ["**Not done.** Please say what happened before, and why."]
    (way,) = [one for one in at.radio if one.key == "release_way"]
    way.set_value(way.options[1])
    next(one for one in at.text_input if one.key == "why_release").set_value("moved last night")
    at = next(one for one in at.button if one.label == "Let it send again").click().run()
    assert not any(title.startswith("Critical: Nothing is sent") for title in titles(at))
    assert entries(house) == [("release sending", "done", "moved whole", "moved last night")]


def test_a_later_hold_is_released_by_the_same_words(app: App, house: House) -> None:
    house.workers(("w-1", 0.5))
    for _ in range(2):
        house.run("UPDATE nottwice.installation SET place = 'server 1, database 2, table 3'")
        session.house().health.forget()
        at = app("health", person=1, charts=True)
        (way,) = [one for one in at.radio if one.key == "release_way"]
        way.set_value(way.options[1])
        next(one for one in at.text_input if one.key == "why_release").set_value("moved last night")
        at = next(one for one in at.button if one.label == "Let it send again").click().run()
        assert any("Done." in one.value for one in at.success)
    assert entries(house) == [("release sending", "done", "moved whole", "moved last night")] * 2


def test_a_month_is_drawn_where_there_is_one(app: App, house: House) -> None:
    assert any("are charted here once a worker" in one.value for one in app("health", person=2).caption)
    house.db.run(lambda tx: samples.take(tx))
    session.house().month.forget()
    at = app("health", person=2)
    assert any(one.value.startswith("With indexes, ") for one in at.caption)


def test_without_the_database_the_last_figures_stay_and_buttons_are_off(app: App, house: House) -> None:
    house.workers(("w-1", 0.5))
    paused(house, "agentmail")
    assert any(one.label == "Resume agentmail" for one in app("health", person=1).button)
    shared = session.house().health

    def gone() -> None:
        raise OSError

    shared._read = gone  # type: ignore[assignment,method-assign]
    shared.forget()
    at = app("health", person=1)
    assert titles(at)[0].startswith("As last read: ") and len(table(at)) > 20
    assert any("The database cannot be reached since " in one.value for one in at.info)
    assert not any("Resume" in button.label for button in at.button)


def test_a_reading_that_takes_too_long_is_stopped_and_said(app: App, house: House) -> None:
    house.workers(("w-1", 0.5))
    app("health", person=2)
    shared = session.house().health
    shared._read = lambda: session.house()._read(lambda tx: tx.one("SELECT pg_sleep(10)"))  # type: ignore[assignment,method-assign]
    shared.forget()
    at = app("health", person=2)
    assert any("took longer than 2 s" in one.value for one in at.info) and len(table(at)) > 20


def test_a_file_that_nothing_could_start_with_is_the_heading(app: App, house: House, tmp_path: Path) -> None:
    house.workers(("w-1", 0.5))
    app("health", person=2)
    (tmp_path / "console.toml").write_text("[alerts]\npending_s = 'soon'\n")
    session.house().health.forget()
    at = app("health", person=2)
    assert titles(at)[0].startswith("Critical: ") and "pending" in titles(at)[0]
    assert table(at)["Configuration"][:2] == ("cannot be used", "✕ critical")
