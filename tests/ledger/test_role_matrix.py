"""The rights of every role to every table, column and function are those that are written down; none is had unseen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ledger.database import Database
from tests.ledger.role_matrix import PEOPLE, ROLES, drawn

DOCUMENT = Path(__file__).parents[2] / "docs" / "roles.md"
BEGIN, END = "<!-- as the database has it -->\n", "<!-- end -->\n"
HIDDEN = {
    "content",
    "body",
    "claim_token",
    "token",
    "provider_key",
    "event_contents",
}  # what no person reads but behind a reveal, or at all


@pytest.fixture(scope="module")
def written() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


def test_the_document_shows_the_rights_as_they_are(database: Database, written: str) -> None:
    now = database.run(drawn)
    before, _, rest = written.partition(BEGIN)
    told, _, after = rest.partition(END)
    if os.environ.get("REWRITE"):
        DOCUMENT.write_text(f"{before}{BEGIN}\n{now}\n{END}{after}", encoding="utf-8")
        return
    missing = [line for line in now.splitlines() if line and line not in told.splitlines()]
    gone = [line for line in told.splitlines() if line and line not in now.splitlines()]
    how = (
        "if it is meant: REWRITE=1 .venv/bin/pytest tests/ledger/test_role_matrix.py, and read the difference"
    )
    assert (missing, gone) == ([], []), how


@pytest.mark.parametrize("role", PEOPLE)
def test_no_person_reads_what_is_behind_a_reveal(database: Database, role: str) -> None:
    rows = database.run(
        lambda tx: tx.all(
            """SELECT c.relname AS table, a.attname AS column
               FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
               WHERE c.relnamespace = 'nottwice'::regnamespace AND c.relkind IN ('r', 'v')
                 AND has_column_privilege(:role, c.oid, a.attnum, 'SELECT')""",
            role=f"nottwice_{role}",
        )
    )
    assert [(row.table, row.column) for row in rows if row.column in HIDDEN] == []


@pytest.mark.parametrize("role", ROLES)
def test_no_role_is_another_or_more_than_one(database: Database, role: str) -> None:
    """Nobody is a superuser, makes roles or databases, passes by row security, or is a member of another role of ours."""
    row = database.run(
        lambda tx: tx.one(
            """SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls OR rolreplication AS more, rolinherit, rolcanlogin,
                      ARRAY(SELECT CAST(other.rolname AS text) FROM pg_roles other
                            WHERE other.rolname LIKE 'nottwice%' AND other.oid <> r.oid
                              AND pg_has_role(r.oid, other.oid, 'USAGE')) AS inherits
               FROM pg_roles r WHERE rolname = :name""",
            name=f"nottwice_{role}",
        )
    )
    assert not row.more and row.inherits == []
    assert row.rolcanlogin == (role in ("console", "receiver", "worker"))
