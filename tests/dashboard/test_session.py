"""The one door: every way an act can end is a value, what was refused or failed is on record, and no act comes twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from dashboard import session
from dashboard.house import House as Shared
from ledger import audit, decisions
from ledger.database import TRIES_MAX, Database, Transaction
from ledger.events import recovery
from ledger.records import Act, Decision, Person, Role, Seen, Settled
from ledger.settings import load
from ledger.sign_in import people
from ledger.views import review as views_review
from tests.browser.stage import CONFIGURATION
from tests.fix_seed import ANSWER, RECEIPT, House, mail

WORDS = "closed without sending"


@pytest.fixture
def door(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, login_url: object, database: Database
) -> Iterator[type[Door]]:
    """`session` as one person's script sees it, without Streamlit's own session."""
    file = tmp_path / "nottwice.toml"
    file.write_text(CONFIGURATION.format(refresh_s=2.0, decided_wait_s=15))
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", login_url("nottwice_console"))  # type: ignore[operator]
    house = Shared(load(file))
    monkeypatch.setattr(session, "house", lambda: house)
    Door.database = database
    Door.patch = monkeypatch
    yield Door
    house.database.close()


class Door:
    """One person at the door."""

    database: Database
    patch: pytest.MonkeyPatch

    def __init__(self, name: str, role: Role) -> None:
        self.person: Person = self.database.run(
            lambda tx: people.person(tx, "local", f"{name}@acme.example", name, "", role)
        )

    def closes(self, send: views_review.Send, *, why: str = "the customer called") -> session.Result:
        self.patch.setattr(session, "me", lambda: self.person)
        seen = Seen(send.version, send.content_digest)

        def do(tx: Transaction, act: Act) -> Settled:
            return decisions.settle(tx, send.id, seen, Decision.DO_NOT_SEND, act)

        form = session.form_id(send.id, send.version, Decision.DO_NOT_SEND)
        return session.act(WORDS, send.id, do, form=form, why=why, looked_at=("Only this page",))


def acts(database: Database) -> list[tuple[str, str]]:
    rows = database.run(lambda tx: tx.all("SELECT act, outcome FROM nottwice.audit ORDER BY id"))
    return [(row.act, row.outcome) for row in rows]


@pytest.fixture
def send(house: House) -> views_review.Send:
    id_ = house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    found = house.db.run(lambda tx: views_review.send(tx, Role.ADMIN, id_))
    assert found is not None
    return found


def test_done_says_what_the_ledger_returned(
    door: type[Door], send: views_review.Send, database: Database
) -> None:
    result = door("Ana", Role.SUPPORT).closes(send)
    assert isinstance(result, session.Done) and isinstance(result.value, Settled)
    assert acts(database) == [(WORDS, "done")]


def test_the_same_form_again_is_already_done_and_leaves_no_second_row(
    door: type[Door], send: views_review.Send, database: Database
) -> None:
    ana = door("Ana", Role.SUPPORT)
    ana.closes(send)
    result = ana.closes(send)
    assert isinstance(result, session.Twice) and result.what == WORDS
    assert acts(database) == [(WORDS, "done")]


def test_who_was_second_is_told_who_was_first_and_the_audit_has_both(
    door: type[Door], send: views_review.Send, database: Database
) -> None:
    door("Bo Lindqvist", Role.ADMIN).closes(send)
    result = door("Ana", Role.SUPPORT).closes(send)
    assert isinstance(result, session.Lost) and result.who == "Bo Lindqvist" and result.tried_at >= result.at
    assert acts(database) == [(WORDS, "done"), (WORDS, "refused")]


def test_a_changed_row_is_stale(
    door: type[Door], send: views_review.Send, house: House, database: Database
) -> None:
    house.run("UPDATE nottwice.actions SET version = version + 1 WHERE id = :id", id=send.id)
    assert door("Ana", Role.SUPPORT).closes(send) == session.Changed()
    assert acts(database) == [(WORDS, "refused")]


def test_a_role_that_may_not_is_refused_by_the_ledger_and_noted(
    door: type[Door], send: views_review.Send, database: Database
) -> None:
    result = door("Eva", Role.ENGINEER).closes(send)
    assert result == session.Refused("You can read this. Support or admin decides.")
    assert acts(database) == [(WORDS, "refused")]


def test_without_a_reason_nothing_is_done(
    door: type[Door], send: views_review.Send, database: Database
) -> None:
    result = door("Ana", Role.SUPPORT).closes(send, why=" ")
    assert isinstance(result, session.Refused) and "Please say why" in result.message
    assert acts(database) == [(WORDS, "refused")]


def test_a_reason_is_kept_without_its_control_letters(
    door: type[Door], send: views_review.Send, database: Database
) -> None:
    """PostgreSQL's text holds no NUL: one that came in with what was pasted must not undo the act."""
    result = door("Ana", Role.SUPPORT).closes(send, why="\x00she\x1b called\x00 ")
    assert isinstance(result, session.Done)
    assert database.run(lambda tx: tx.one("SELECT why FROM nottwice.audit")).why == "she called"


def test_an_error_changes_nothing_and_is_noted_as_failed(
    door: type[Door], send: views_review.Send, house: House, database: Database
) -> None:
    house.run(
        "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'disk full'; END $$"
    )
    house.run("CREATE TRIGGER no BEFORE UPDATE ON nottwice.actions FOR EACH ROW EXECUTE FUNCTION public.no()")
    result = door("Ana", Role.SUPPORT).closes(send)
    assert isinstance(result, session.TryAgain) and "nothing was done" in result.sentence
    assert acts(database) == [(WORDS, "failed")]


def test_without_a_database_it_says_so(
    door: type[Door], send: views_review.Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = door("Ana", Role.SUPPORT)
    broken = Database("postgresql+psycopg://nobody@/nowhere?host=/nonexistent")
    monkeypatch.setattr(session.house(), "database", broken)
    result = ana.closes(send)
    broken.close()
    assert isinstance(result, session.TryAgain) and "cannot be reached" in result.sentence


def test_a_text_is_not_shown_where_the_audit_cannot_be_written(
    door: type[Door], send: views_review.Send, house: House
) -> None:
    ana = door("Ana", Role.SUPPORT)
    Door.patch.setattr(session, "me", lambda: ana.person)
    shown = session.reveal(send.id, "")
    assert isinstance(shown, session.Done) and b"Your receipt" in shown.value  # type: ignore[operator]
    house.run("REVOKE INSERT ON nottwice.audit FROM nottwice_support")
    house.run(
        """DO $$ BEGIN EXECUTE 'REVOKE INSERT (person_id, role, act, entity, entity_id, entity_version, outcome, why, looked_at,
           known, state_before, state_after, detail, form_id) ON nottwice.audit FROM nottwice_support'; END $$"""
    )
    assert isinstance(session.reveal(send.id, ""), session.TryAgain)
    assert isinstance(ana.closes(send), session.TryAgain)


def test_a_form_is_one_person_one_choice_one_version(door: type[Door]) -> None:
    ana, bo = door("Ana", Role.SUPPORT), door("Bo", Role.ADMIN)

    def form(who: Door, *parts: object) -> UUID:
        Door.patch.setattr(session, "me", lambda: who.person)
        return session.form_id(*parts)

    forms = {
        form(ana, 7, 1, "x"),
        form(ana, 7, 2, "x"),
        form(ana, 7, 1, "y"),
        form(ana, 71, "", "x"),
        form(bo, 7, 1, "x"),
    }
    assert len(forms) == 5 and form(ana, 7, 1, "x") in forms


# ── DBX-03: the approve and the retry button ──────────────────────────────────────────────────────────

# A sequence counts, because no rollback takes it back.
NOT_YET = """
CREATE SEQUENCE public.tries;
CREATE FUNCTION public.not_yet() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF nextval('public.tries') <= {times} THEN
        RAISE EXCEPTION 'not yet' USING ERRCODE = '{code}';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER not_yet AFTER UPDATE ON nottwice.{table} FOR EACH STATEMENT EXECUTE FUNCTION public.not_yet();
"""
FOREVER = 1000


def say_not_yet(database: Database, table: str, times: int, code: str) -> None:
    with database.transaction() as tx:
        tx.connection.exec_driver_sql(NOT_YET.format(table=table, times=times, code=code))


def pressed(
    door: type[Door], house: House, button: str, times: int, code: str = "40001"
) -> tuple[session.Result, str]:
    """Presses it about one row that cannot be changed so many times; what came of it, and the row's state."""
    table = "actions" if button == "approve" else "events"
    if button == "approve":
        house.proposed(ANSWER, mail("ana.ruiz@example.com", "Your receipt"), about="INV-1")
    else:
        house.events(1, state="failed")
    row = house.db.run(lambda tx: tx.one(f"SELECT * FROM nottwice.{table} ORDER BY id DESC LIMIT 1"))
    say_not_yet(house.db, table, times, code)

    def do(tx: Transaction, act: Act) -> object:
        if button == "approve":
            return decisions.approve(tx, row.id, Seen(row.version, bytes(row.content_digest)), act)
        return recovery.requeue(tx, row.id, row.version, act)

    someone = door("Ana", Role.ADMIN)
    door.patch.setattr(session, "me", lambda: someone.person)
    form = session.form_id(row.id, row.version, Decision.DO_NOT_SEND)
    entity: audit.Entity = "action" if button == "approve" else "event"
    result = session.act(button, row.id, do, form=form, why="looked at", entity=entity)
    state = house.db.run(
        lambda tx: tx.one(f"SELECT state FROM nottwice.{table} WHERE id = :id", id=row.id)
    ).state
    return result, str(state)


@pytest.mark.parametrize("code", ["40001", "40P01"])
@pytest.mark.parametrize("button", ["approve", "retry"])
def test_dbx_03_a_button_goes_through_on_the_third_try(
    door: type[Door], house: House, database: Database, button: str, code: str
) -> None:
    result, state = pressed(door, house, button, 2, code)
    assert isinstance(result, session.Done)
    assert state == ("approved" if button == "approve" else "pending")
    assert [outcome for _, outcome in acts(database)] == ["done"]


@pytest.mark.parametrize("button", ["approve", "retry"])
def test_dbx_03_after_the_bound_a_button_says_try_again_and_leaves_no_part_of_an_act(
    door: type[Door], house: House, database: Database, button: str
) -> None:
    result, state = pressed(door, house, button, FOREVER)
    assert isinstance(result, session.TryAgain) and "Try again" in result.sentence
    assert state == ("proposed" if button == "approve" else "failed")
    assert acts(database) == [(button, "failed")], "that it was tried is on record, and nothing of the act"
    assert database.run(lambda tx: tx.one("SELECT last_value FROM public.tries")).last_value == TRIES_MAX
