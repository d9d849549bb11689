"""The page for applications: its grants, its configuration and its code are run as they stand there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from ledger.database import Database
from tests.docs.book import blocks

PAGE = Path(__file__).parents[2] / "docs" / "propose-from-your-application.md"
BLOCKS = blocks(PAGE)
GRANTS, ASKED = (block.text for block in BLOCKS if block.language == "sql")
PEOPLE = "CREATE TABLE users (id bigint GENERATED ALWAYS AS IDENTITY, address text); GRANT INSERT, SELECT ON users TO shop"


@pytest.fixture
def login(database: Database, login_url: Callable[[str], str]) -> Iterator[sa.URL]:
    """The page's own, on a database with a table of the application's."""
    connection = database.engine.raw_connection()
    with connection.cursor() as cursor:
        cursor.execute(GRANTS)
        cursor.execute(PEOPLE)
    connection.commit()
    yield sa.make_url(login_url("shop"))
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE users; DROP OWNED BY shop; DROP ROLE shop")
    connection.commit()
    connection.close()


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Callable[..., None]]:
    (block,) = (block for block in BLOCKS if block.language == "toml")
    (tmp_path / "nottwice.toml").write_text(block.text)
    monkeypatch.setenv("NOTTWICE_CONFIG", str(tmp_path / "nottwice.toml"))

    def of(words: str) -> Callable[..., None]:
        (text,) = (block.text for block in BLOCKS if (block.language, block.words) == ("python", words))
        module: dict[str, Any] = {}
        exec(compile(text, PAGE.name, "exec"), module)
        return module["register"]  # type: ignore[no-any-return]

    return of


def stored(database: Database) -> list[tuple[Any, ...]]:
    sql = "SELECT action_key, state FROM nottwice.actions ORDER BY id"
    return [tuple(row) for row in database.run(lambda tx: tx.all(sql))]


def test_both_ways_write_the_row_and_what_goes_out(
    database: Database, login: sa.URL, code: Callable[[str], Callable[..., None]]
) -> None:
    with psycopg.connect(
        login.set(drivername="postgresql").render_as_string(hide_password=False)
    ) as connection:
        code("psycopg")(connection, "ada@example.com")
        assert connection.execute(ASKED).fetchone() == ("approved",)
    engine = sa.create_engine(login, poolclass=sa.NullPool)
    with Session(engine) as session:
        code("sqlalchemy")(session, "bo@example.com")
    assert stored(database) == [("welcome:1", "approved"), ("welcome:2", "approved")]
