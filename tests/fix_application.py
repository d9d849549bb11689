"""An application with a login of its own, which may propose and nothing else, and the ways it may be connected."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from ledger.application import propose
from ledger.database import Database
from ledger.embedded import Cluster
from ledger.records import Email, Proposed
from ledger.settings import Settings, load
from tests.databases import connected

CONFIGURATION = """
[providers.mail]
kind = "agentmail"
key = "mail-key"

[actions.welcome]
provider = "mail"

[actions.answer]
provider = "mail"
approval = true
"""
EMAIL = Email(
    to=("ada@example.com",), subject="Welcome", text="Good to have you.", inbox="hello@acme.example"
)


@dataclass
class Application:
    """`url` is what it was given by its owner; `database` is for the test's own hands."""

    url: sa.URL
    settings: Settings
    database: Database
    opened: list[Any] = field(default_factory=list)

    def psycopg(self, **options: Any) -> psycopg.Connection[Any]:
        text = self.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self.opened.append(psycopg.connect(text, **options))
        return self.opened[-1]  # type: ignore[no-any-return]

    def engine(self, **options: Any) -> sa.Engine:
        return sa.create_engine(self.url, poolclass=sa.NullPool, **options)

    def sqlalchemy(self, **options: Any) -> sa.Connection:
        self.opened.append(self.engine(**options).connect())
        return self.opened[-1]  # type: ignore[no-any-return]

    def propose(
        self, connection: object, key: str = "welcome:7", text: str = EMAIL.text, **more: Any
    ) -> Proposed:
        return self.propose_email(
            connection, Email(EMAIL.to, EMAIL.subject, text, inbox=EMAIL.inbox), key, **more
        )

    def propose_email(
        self, connection: object, email: Email, key: str = "welcome:7", **more: Any
    ) -> Proposed:
        given = {"kind": "welcome", "namespace": "acme", "settings": self.settings, **more}
        return propose(connection, given.pop("kind"), key, email, **given)

    def rows(
        self, sql: str = "SELECT action_key FROM nottwice.actions ORDER BY id", **values: Any
    ) -> list[Any]:
        return self.database.run(lambda tx: list(tx.all(sql, **values)))


@pytest.fixture(scope="session")
def application_login(cluster: Cluster) -> str:
    """Made as an operator would; it lives as long as the run's server."""
    name = f"shop_{os.getpid()}"
    with connected(cluster, "postgres") as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN; GRANT nottwice_application TO {name}")
    return name


@pytest.fixture
def application(
    application_login: str, login_url: Callable[[str], str], database: Database, tmp_path: Path
) -> Iterator[Application]:
    (tmp_path / "nottwice.toml").write_text(CONFIGURATION)
    url = sa.make_url(login_url(application_login))
    made = Application(url, load(tmp_path / "nottwice.toml"), database)
    yield made
    for connection in made.opened:
        connection.close()
