"""No screen walks through history: the plan of everything that every page asks, on 50,000 finished events.

Pages are those of the console's own navigation, opened as an admin; in each, every segment is chosen and every way onwards is
pressed. A page, a segment or a statement that is added is read here the same day.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest, element_tree

from dashboard import session
from ledger.embedded import Cluster
from ledger.records import Role
from tests.dashboard.conftest import App, opened
from tests.databases import connected
from tests.fix_history import Scale, fill
from tests.fix_past import database_with_a_past
from tests.fix_statements import Statement, watched

pytestmark = pytest.mark.xdist_group("plans of screens")

SCALE = Scale(history=50_000, live=1_000, desk=100)
ONWARDS = ("Start with", "Open ", "Next ", "Look further", "Decided", "See ")
ADMIN = 1  # sees every page, whole
LARGE = {
    "events",
    "event_contents",
    "duplicates",
    "actions",
    "action_contents",
    "action_attempts",
    "messages",
    "audit",
    "audit_seals",
}
ROWS_MAX = 10_001  # of one table at one place of a plan, kept or thrown away: what lives, or a count that says "more than 10,000"
TALLIES = {"counters"}  # of one day: they fold into hours, and those into months
FEW = 100  # of a table that is read without an index
PAGES_MAX = 600  # of 8 kB, by a whole statement; the finished events alone have 1,500


@dataclass(frozen=True)
class Asked:
    """A statement, and the first page that asked it."""

    where: str
    statement: Statement


@pytest.fixture(scope="module")
def everything(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Asked]]:
    """What a walk through the whole console asks."""
    with database_with_a_past(cluster, "screens") as book:
        url = book.database.engine.url
        with connected(cluster, str(url.database)) as owner:
            fill(owner, SCALE, lambda _: None)
        login = url.set(username="nottwice_console").render_as_string(hide_password=False)
        with opened(login, tmp_path_factory.mktemp("screens")) as app:
            yield walked(app)


class Shown(str):
    """An option as it stands on the page, which AppTest would format once more."""

    __slots__ = ()


@pytest.fixture(scope="module", autouse=True)
def _options_as_they_stand() -> Iterator[None]:
    formatted = element_tree._format_value_for_widget
    with pytest.MonkeyPatch.context() as patch:
        as_shown = lambda how, value: str(value) if isinstance(value, Shown) else formatted(how, value)  # noqa: E731
        patch.setattr(element_tree, "_format_value_for_widget", as_shown)
        yield


def walked(app: App) -> list[Asked]:
    asked: list[Asked] = []
    with watched(session.house().database.engine, plans=True) as watch:
        for page in app("me", person=ADMIN).session_state["pages"]:
            session.house().count_anew()
            for where, at in ways(app, page):
                assert not at.exception, (where, at.exception)
                asked += [Asked(where, one) for one in watch.asked]
                watch.forget()
    return asked


def ways(app: App, page: str) -> Iterator[tuple[str, AppTest]]:
    """The page, each segment of it, and what each button of it that leads onwards opens."""
    at = app(page, person=ADMIN, charts=True)
    yield page, at
    onwards = sorted({one.label for one in at.button if one.label.startswith(ONWARDS)})
    for place, group in enumerate(at.button_group):
        for option in group.options[1:]:
            yield f"{page}, {option}", at.button_group[place].set_value(Shown(option)).run()
    for label in onwards:
        at = app(page, person=ADMIN, charts=True)
        yield f"{page}, {label}", next(one for one in at.button if one.label == label).click().run()


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def walks_through(plan: dict[str, Any]) -> Iterator[str]:
    """What in this plan reads history, in words."""
    pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    if pages > PAGES_MAX:
        yield f"{pages} pages in all"
    for node in nodes(plan):
        rows = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        most = FEW if node["Node Type"] == "Seq Scan" and node["Relation Name"] in LARGE else ROWS_MAX
        if "Relation Name" in node and node["Relation Name"] not in TALLIES and rows > most:
            yield f"{node['Node Type']} of {node['Relation Name']}, {rows:,.0f} rows"


def test_ui_11_no_statement_of_any_screen_walks_through_history(everything: list[Asked]) -> None:
    found = {
        f"{one.where}: {', '.join(through)}: {' '.join(one.statement.sql.split())[:160]}"
        for one in everything
        if one.statement.plan and (through := list(walks_through(one.statement.plan)))
    }
    assert not found, "\n".join(sorted(found))


def test_every_page_was_walked_with_all_that_it_reads(everything: list[Asked]) -> None:
    places = {one.where for one in everything}
    assert {"overview", "review", "events", "audit", "health"} <= places
    assert {"review, Start with the first", "events, Open the first", "events, Next 25"} <= places
    assert len({one.statement.sql for one in everything if one.statement.plan}) > 50


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM nottwice.actions WHERE state IN ('needs_review', 'sent')",
        "SELECT count(*) FROM nottwice.events WHERE state = 'completed'",
        "SELECT count(*) FROM nottwice.action_attempts WHERE outcome <> 'accepted'",
        "SELECT source, count(*) FROM nottwice.events GROUP BY source",
    ],
)
def test_a_walk_through_history_is_noticed(everything: list[Asked], sql: str) -> None:
    database = session.house().database
    with watched(database.engine, plans=True) as watch:
        database.run(lambda tx: tx.one(sql), role=Role.VIEWER)
    assert any(one.plan and list(walks_through(one.plan)) for one in watch.asked)
