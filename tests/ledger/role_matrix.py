"""Who may do what to which table, read from the catalogs of a migrated database and written down as `docs/roles.md`.

REWRITE=1 .venv/bin/pytest tests/ledger/test_role_matrix.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ledger.database import Transaction

ROLES = ("viewer", "support", "engineer", "auditor", "admin", "console", "receiver", "worker", "application")
PEOPLE = ROLES[:5]
RIGHTS = {"SELECT": "read", "INSERT": "add", "UPDATE": "change", "DELETE": "delete", "TRUNCATE": "truncate"}
COLUMNS = """
    SELECT r.role, c.relname AS table, a.attname AS column, p.right
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped,
         unnest(CAST(:roles AS text[])) r(role), unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) p("right")
    WHERE c.relnamespace = 'nottwice'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
      AND has_column_privilege('nottwice_' || r.role, c.oid, a.attnum, p.right)"""
TABLES = """
    SELECT r.role, c.relname AS table, p.right
    FROM pg_class c, unnest(CAST(:roles AS text[])) r(role), unnest(ARRAY['DELETE', 'TRUNCATE']) p("right")
    WHERE c.relnamespace = 'nottwice'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
      AND has_table_privilege('nottwice_' || r.role, c.oid, p.right)"""
ALL = """
    SELECT c.relname AS table, array_agg(CAST(a.attname AS text) ORDER BY a.attnum) AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'nottwice'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm') GROUP BY 1 ORDER BY 1"""
# Those that act with the owner's rights; what triggers call, nobody can call by hand.
FUNCTIONS = """
    SELECT p.proname AS name, array_agg(r.role ORDER BY r.place)
               FILTER (WHERE has_function_privilege('nottwice_' || r.role, p.oid, 'EXECUTE')) AS roles
    FROM pg_proc p, unnest(CAST(:roles AS text[])) WITH ORDINALITY r(role, place)
    WHERE p.pronamespace = 'nottwice'::regnamespace AND p.prosecdef AND p.prorettype <> 'trigger'::regtype
    GROUP BY p.oid, p.proname ORDER BY 1"""

Rights = dict[tuple[str, str, str], set[str]]  # role, table, right: the columns


def drawn(tx: Transaction) -> str:
    """The three tables of the document, in Markdown."""
    tables = {row.table: list(row.columns) for row in tx.all(ALL)}
    rights = _rights(tx, tables)
    return "\n\n".join([_cells(tables, rights), _columns(tables, rights), _functions(tx)]) + "\n"


def _rights(tx: Transaction, tables: Mapping[str, list[str]]) -> Rights:
    found: Rights = {}
    for row in tx.all(COLUMNS, roles=list(ROLES)):
        found.setdefault((row.role, row.table, row.right), set()).add(row.column)
    for row in tx.all(TABLES, roles=list(ROLES)):
        found[row.role, row.table, row.right] = set(tables[row.table])
    return found


def _cells(tables: Mapping[str, list[str]], rights: Rights) -> str:
    """One letter a right: capital for all columns, small for some."""
    rows = []
    for table, columns in tables.items():
        cells = []
        for role in ROLES:
            letters = ""
            for right, word in RIGHTS.items():
                may = rights.get((role, table, right), set())
                letters += (word[0].upper() if may == set(columns) else word[0]) if may else ""
            cells.append(letters or "·")
        rows.append([f"`{table}`", *cells])
    return _table(["table", *ROLES], rows)


def _columns(tables: Mapping[str, list[str]], rights: Rights) -> str:
    """Where people's rights end inside a table: what is never read, and what alone may be changed."""
    rows = []
    for table, columns in tables.items():
        for right, word in (("SELECT", "does not read"), ("INSERT", "adds"), ("UPDATE", "changes")):
            by_columns: dict[tuple[str, ...], list[str]] = {}
            for role in PEOPLE:
                may = rights.get((role, table, right), set())
                told = [c for c in columns if (c in may) != (right == "SELECT")]
                if may and told:
                    by_columns.setdefault(tuple(told), []).append(role)
            rows += [
                [f"`{table}`", _named(roles), word, ", ".join(f"`{one}`" for one in told)]
                for told, roles in by_columns.items()
            ]
    return _table(["table", "who", "", "columns"], rows)


def _functions(tx: Transaction) -> str:
    found: list[Any] = list(tx.all(FUNCTIONS, roles=list(ROLES)))
    return _table(["function", "who"], [[f"`{row.name}`", _named(row.roles or [])] for row in found])


def _named(roles: Iterable[str]) -> str:
    named = list(roles)
    if named == list(ROLES):
        return "everybody"
    if set(PEOPLE) <= set(named):
        return ", ".join(["all people", *(one for one in named if one not in PEOPLE)])
    return ", ".join(named) or "nobody"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
