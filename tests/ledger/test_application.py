"""An application proposes in its own transaction, on its own connection, under a login that may do nothing else."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import IsolationLevel
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from ledger import actions
from ledger.application import propose
from ledger.errors import Misconfigured, NotInTransaction, Unproposable, Unstorable
from ledger.records import Proposal
from ledger.states import ActionState
from tests.fix_application import EMAIL, Application
from tests.fix_events import WAIT_S, WAITING

Opens = Callable[[Application], Any]


def of_level(level: IsolationLevel) -> Opens:
    def opens(app: Application) -> Any:
        connection = app.psycopg()
        connection.isolation_level = level
        return connection

    return opens


def of_its_own_habits(app: Application) -> Any:
    connection = app.psycopg(row_factory=dict_row, cursor_factory=psycopg.ClientCursor)
    connection.adapters.register_loader("uuid", TextLoader)
    connection.adapters.register_loader("bytea", TextLoader)
    return connection


def in_a_block(app: Application) -> Any:
    connection = app.psycopg(autocommit=True)
    connection.execute("BEGIN")
    return connection


WAYS: dict[str, Opens] = {
    "psycopg": lambda app: app.psycopg(),
    "psycopg with its own rows and types": of_its_own_habits,
    "psycopg repeatable read": of_level(IsolationLevel.REPEATABLE_READ),
    "psycopg serializable": of_level(IsolationLevel.SERIALIZABLE),
    "psycopg autocommit inside BEGIN": in_a_block,
    "sqlalchemy connection": lambda app: app.sqlalchemy(),
    "sqlalchemy serializable": lambda app: app.sqlalchemy(isolation_level="SERIALIZABLE"),
    "sqlalchemy session": lambda app: Session(app.sqlalchemy()),
    "sqlalchemy scoped session": lambda app: scoped_session(sessionmaker(app.sqlalchemy())),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_stored_once_with_the_callers_commit(application: Application, way: str) -> None:
    connection = WAYS[way](application)
    proposed = application.propose(connection)
    again = application.propose(connection, text="Other words.")
    assert application.rows() == [], "nothing is seen before the caller commits"
    connection.commit()
    assert (proposed.created, again.created, again.same_content) == (True, False, False)
    assert again.action_id == proposed.action_id
    (row,) = application.rows(
        """SELECT a.state, a.generation, a.event_id, c.recipients, c.subject, c.content, a.provider_key
           FROM nottwice.actions a JOIN nottwice.action_contents c ON c.action_id = a.id"""
    )
    assert (row.state, row.generation, row.event_id, row.recipients) == ("approved", 1, None, list(EMAIL.to))
    assert (row.subject, b"Good to have you." in bytes(row.content)) == (EMAIL.subject, True)
    assert row.provider_key == by_the_ledger(application, "welcome:7")


def by_the_ledger(app: Application, key: str) -> str:
    """The provider's key as a worker would have derived it."""
    proposal = Proposal("acme", key, app.settings.rules("welcome"), EMAIL.content(), EMAIL.to)
    app.database.run(lambda tx: tx.execute("UPDATE nottwice.actions SET key_digest = sha256('x')") and None)
    made = app.database.run(lambda tx: actions.propose(tx, proposal))
    assert made.created
    return str(app.rows("SELECT provider_key FROM nottwice.actions WHERE id = :id", id=made.action_id)[0][0])


@pytest.mark.parametrize("way", WAYS)
def test_it_is_undone_with_the_callers_rollback(application: Application, way: str) -> None:
    connection = WAYS[way](application)
    application.propose(connection)
    connection.rollback()
    assert application.rows() == []


def test_a_savepoint_takes_back_what_was_proposed_under_it_and_no_more(application: Application) -> None:
    connection = application.psycopg()
    with connection.transaction():
        application.propose(connection, "welcome:1")
        with connection.transaction(force_rollback=True):
            application.propose(connection, "welcome:2")
        assert application.propose(connection, "welcome:2").created
    session = Session(application.sqlalchemy())
    with session.begin():
        with session.begin_nested() as savepoint:
            application.propose(session, "welcome:3")
            savepoint.rollback()
        application.propose(session, "welcome:4")
    assert [row.action_key for row in application.rows()] == ["welcome:1", "welcome:2", "welcome:4"]


def test_it_may_name_its_event_and_wait_for_approval(application: Application) -> None:
    connection = application.psycopg()
    one = application.propose(
        connection, "answer:1", kind="answer", recipients=("bo@example.com",), about="A question"
    )
    assert one.state == "proposed"
    with pytest.raises(Unproposable, match="There is no event 77"):
        application.propose(connection, "answer:2", event_id=77)


def test_what_is_refused_has_not_touched_the_transaction(application: Application) -> None:
    connection = application.psycopg()
    with pytest.raises(Unstorable):
        application.propose(connection, about="\0")
    with pytest.raises(Misconfigured, match="did you mean welcome"):
        application.propose(connection, kind="welcme")
    with pytest.raises(TypeError, match="not str"):
        propose(connection, "welcome", "k", "Hi", namespace="a", settings=application.settings)  # type: ignore[arg-type]
    assert application.propose(connection).created


@pytest.mark.parametrize(
    "opens",
    [
        lambda app: app.psycopg(autocommit=True),
        lambda app: app.sqlalchemy(isolation_level="AUTOCOMMIT"),
        lambda app: Session(app.engine(isolation_level="AUTOCOMMIT")),
    ],
    ids=["psycopg", "connection", "session"],
)
def test_a_connection_that_commits_by_itself_is_refused(application: Application, opens: Opens) -> None:
    with pytest.raises(NotInTransaction, match=r"commits each statement by itself .* Nothing was proposed\."):
        application.propose(opens(application))
    assert application.rows() == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda app: app.engine(), "A Engine has no transaction to propose in. Hand over the connection"),
        (lambda app: "postgresql://…", "A str has no transaction"),
        (lambda app: sqlite3.connect(":memory:"), "A Connection has no transaction"),
        (lambda app: sa.create_engine("sqlite://").connect(), r"speaks sqlite\+pysqlite; proposing needs"),
        (lambda app: create_async_engine(app.url).connect(), "is asynchronous; await it as"),
    ],
)
def test_what_is_no_transaction_is_refused(application: Application, given: Opens, words: str) -> None:
    with pytest.raises(NotInTransaction, match=words):
        application.propose(given(application))


def test_an_asynchronous_application_proposes_too(application: Application) -> None:
    async def register() -> bool:
        engine = create_async_engine(application.url, poolclass=sa.NullPool)
        async with engine.begin() as connection:
            made = await connection.run_sync(application.propose)
        await engine.dispose()
        return made.created

    with ThreadPoolExecutor(1) as beside:  # on this thread a browser's loop may run
        assert beside.submit(lambda: asyncio.run(register())).result()
    assert len(application.rows()) == 1


# ── The same key at the same moment ───────────────────────────────────────────────────────────────────


def race(app: Application, first: Any, second: Any, end: Callable[[Any], None]) -> Any:
    """The second proposes while the first has not ended; what it got, or its error."""
    app.propose(first, text="First.")
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(app.propose, second, text="Second.")
        while not app.rows(WAITING)[0][0]:
            assert not waits.done()
        end(first)
        return waits.exception(WAIT_S) or waits.result()


def test_who_comes_second_waits_and_is_given_what_stands(application: Application) -> None:
    first, second = application.psycopg(), application.sqlalchemy()
    proposed = race(application, first, second, lambda one: one.commit())
    second.commit()
    assert (proposed.created, proposed.same_content) == (False, False)
    assert len(application.rows()) == 1


def test_when_the_first_gives_up_the_second_makes_it(application: Application) -> None:
    first, second = application.psycopg(), application.psycopg()
    assert race(application, first, second, lambda one: one.rollback()).created


@pytest.mark.parametrize(
    "way", ["psycopg repeatable read", "psycopg serializable", "sqlalchemy serializable"]
)
def test_in_a_stricter_isolation_the_second_has_to_begin_anew(application: Application, way: str) -> None:
    first, second = application.psycopg(), WAYS[way](application)
    sql = "SELECT id FROM nottwice.actions"
    second.execute(sa.text(sql) if isinstance(second, sa.Connection) else sql)  # its snapshot is of before
    error = race(application, first, second, lambda one: one.commit())
    assert isinstance(error, psycopg.errors.SerializationFailure | OperationalError)
    assert getattr(getattr(error, "orig", error), "sqlstate", None) == "40001"
    second.rollback()
    assert not application.propose(second, text="Second.").created


# ── Its login ─────────────────────────────────────────────────────────────────────────────────────────

WHOLE = """INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, provider, account, reference, policy, cost,
    content_digest, key_margin_s, evidence_s, retry_until, state, due_at{}) VALUES
    ('a', 'k', sha256('k'), 'welcome', 'p', 'p', 'r', 'review', 'high', '', 1, 1, now(), {}, now(){})"""


def met(app: Application, *statements: str) -> dict[str, str]:
    """The SQLSTATE that each statement of its own meets."""
    connection, answers = app.psycopg(), {}
    for sql in statements:
        with suppress(psycopg.Error), connection.transaction(force_rollback=True):
            try:
                connection.execute(sql)
            except psycopg.Error as error:
                answers[sql] = str(error.sqlstate)
                raise
    return answers


FORBIDDEN = [
    *(
        f"SELECT {name} FROM nottwice.actions"
        for name in ("action_key", "provider_key", "about", "claim_token", "*")
    ),
    *(
        f"SELECT {name} FROM nottwice.action_contents"
        for name in ("content", "recipients", "subject", "action_id")
    ),
    *(
        f"SELECT FROM nottwice.{name}"
        for name in ("events", "event_contents", "evidence", "action_attempts", "audit")
    ),
    "UPDATE nottwice.actions SET state = 'closed'",
    "UPDATE nottwice.actions SET due_at = now()",
    "DELETE FROM nottwice.actions",
    "DELETE FROM nottwice.action_contents",
    "UPDATE nottwice.action_contents SET content = ''",
    "INSERT INTO nottwice.action_attempts DEFAULT VALUES",
    "INSERT INTO nottwice.evidence DEFAULT VALUES",
    "INSERT INTO nottwice.audit DEFAULT VALUES",
    "INSERT INTO nottwice.events DEFAULT VALUES",
    "SET LOCAL ROLE nottwice_worker",
    "SET LOCAL ROLE nottwice_admin",
    "CREATE TABLE nottwice.t (i int)",
    "CREATE TABLE public.t (i int)",
    WHOLE.format(", generation", "'approved'", ", 2"),
    WHOLE.format(", decided_send", "'approved'", ", true"),
    WHOLE.format(", settled_at", "'sent'", ", now()"),
]


def test_its_login_may_nothing_else(application: Application) -> None:
    assert met(application, *FORBIDDEN) == dict.fromkeys(FORBIDDEN, "42501")


# The first two work on what their own transaction made, and on nothing else; the third tells which server this is; the last says of a
# number whether it is an event's, as the foreign key of a proposal does, which would end the transaction.
FOR_EVERYBODY = {"is_one_too_many", "hold_back", "place", "has_event"}


def test_no_function_of_ours_does_for_it_what_it_may_not(application: Application) -> None:
    """Whoever may use the schema may call its functions, unless EXECUTE was revoked; those that run as their owner are not

    for everybody. A new one that is: name it here, with the reason.
    """
    sql = """SELECT proname FROM pg_proc WHERE pronamespace = 'nottwice'::regnamespace AND prosecdef
             AND prorettype <> 'trigger'::regtype AND has_function_privilege('nottwice_application', oid, 'EXECUTE')"""
    assert {row.proname for row in application.rows(sql)} - FOR_EVERYBODY == set()


def test_its_login_stores_nothing_but_what_is_to_go_out(application: Application) -> None:
    """For every other state a CHECK asks for a column that it may not write."""
    others = set(ActionState) - {ActionState.PROPOSED, ActionState.APPROVED}
    tried = [WHOLE.format("", f"'{state}'", "") for state in others]
    tried += [sql.replace("', now())", "', NULL)") for sql in tried]
    assert met(application, *tried) == dict.fromkeys(tried, "23514")
    assert met(application, WHOLE.format("", "'approved'", "")) == {}


def test_its_login_may_ask_what_became_of_a_send(application: Application) -> None:
    connection = application.psycopg()
    made = application.propose(connection)
    connection.commit()
    asked = connection.execute("SELECT state FROM nottwice.actions WHERE id = %s", (made.action_id,))
    assert asked.fetchone() == ("approved",)
