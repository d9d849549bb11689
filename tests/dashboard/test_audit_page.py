"""The audit page by its headings, rows and boxes; and what the audit holds of acts that were not carried out (AUD-05)."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.screens import audit_table
from dashboard.screens.audit import whole_or_not
from ledger import audit
from ledger.audit import check as audit_check
from ledger.audit import memory as audit_memory
from ledger.audit import seals
from ledger.audit.memory import Break, Check
from ledger.database import Database
from ledger.records import Act, Person, Role
from ledger.sign_in import people
from ledger.views.audit import Entry, Standing
from tests.dashboard.conftest import App, seen_at_900_px
from tests.fix_seed import RECEIPT, House, mail

ANA, BO, EVA = 0, 1, 2  # support, admin, engineer
NOTHING = "There is nothing here, or you may not see it."


def titles(at: AppTest) -> list[str]:
    assert not at.exception, at.exception
    return [title.value for title in at.title]


def rows(at: AppTest) -> list[str]:
    return list(at.dataframe[0].value["No."]) if at.dataframe else []


def person(database: Database, name: str, role: Role) -> Person:
    """The same row as the console's."""
    email = f"{name.lower().replace(' ', '.')}@acme.example"
    return database.run(lambda tx: people.person(tx, people.LOCAL, email, name, email, role))


def tried(database: Database, who: Person, n: int = 1, *, entity: audit.Entity = "action") -> None:
    for i in range(n):
        act = Act(who, uuid4(), "I had to")
        database.run(lambda tx, act=act, i=i: audit.refused(tx, act, "closed as sent", entity, i + 1, "No."))  # type: ignore[misc]


@pytest.fixture
def entries(database: Database) -> Database:
    """Two entries of Ana's, one of Bo's about an event; sealed."""
    tried(database, person(database, "Ana Soto", Role.SUPPORT), 2)
    tried(database, person(database, "Bo Lindqvist", Role.ADMIN), entity="event")
    database.run(seals.seal)
    return database


def checked(database: Database) -> None:
    found = audit_check.verify(database.run)
    database.run(lambda tx: audit_memory.record(tx, found, None))


# ── What it says ──────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_record_says_so(app: App) -> None:
    assert titles(app("audit", person=BO)) == ["Nothing is on record yet."]


def test_a_record_that_was_never_checked_is_not_called_whole(app: App, entries: Database) -> None:
    at = app("audit", person=BO)
    assert titles(at) == ["The record has 3 entries. Nobody has checked it yet."]
    assert rows(at) == ["3", "2", "1"]
    table = at.dataframe[0].value
    assert list(table.columns) == ["No.", "Time (UTC)", "Who", "Did", "To what", "Outcome", "Why"]
    assert seen_at_900_px(at.dataframe[0]) == list(table.columns)[:6]
    assert list(table.iloc[0])[2:] == [
        "Bo Lindqvist",
        "closed as sent",
        "Event 1",
        ["– Refused"],
        "No. · I had to",
    ]


def test_a_list_has_the_reason_under_why_and_not_behind_what_was_done() -> None:
    at = datetime(2026, 12, 1, tzinfo=UTC)
    seal = (None, "tx", None, None)
    of: tuple[Any, ...] = ("action", 1, 1, "RF-220")
    known = ((), "", None, None)
    refused = ("refused", "I had to", *known, "Not done. Bo was first.")
    ana = Entry(1, at, 7, "Ana", "support", "closed as sent", *of, *refused, *seal)
    policy = Entry(
        2, at, None, "", "", "dropped: too old to help", *of, "done", "policy drop", *known, "", *seal
    )
    listed = audit_table.frame([ana, policy])
    assert list(listed["Did"]) == ["closed as sent", "dropped"]
    assert list(listed["Why"]) == ["Bo was first. · I had to", "too old to help · policy drop"]
    assert audit_table.did(policy) == "dropped: too old to help", "the entry itself has the whole sentence"


def test_check_the_record_now_says_what_was_found(app: App, entries: Database) -> None:
    at = app("audit", person=BO)
    at = next(b for b in at.button if b.label == "Check the record now").click().run()
    assert titles(at)[0].startswith("The record is whole: 3 entries, checked at ")
    assert any(c.value.startswith("Checked by Bo Lindqvist. Read at ") for c in at.caption)


def test_a_broken_record_is_the_heading_and_says_what_to_do(app: App, entries: Database) -> None:
    with entries.transaction() as tx:
        tx.execute("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
        tx.execute("UPDATE nottwice.audit SET why = 'other' WHERE id = 2")
    checked(entries)
    at = app("audit", person=EVA)
    assert titles(at) == ["Entry 2 does not fit the one before it."]
    assert at.error[0].value.startswith("**Do not change anything.**")
    assert "Entry 2 was changed after it was sealed." in [text.value for text in at.text]


def test_seals_that_are_late_are_said(app: App, database: Database) -> None:
    tried(database, person(database, "Ana Soto", Role.SUPPORT))
    with database.transaction() as tx:
        tx.execute("UPDATE nottwice.audit_unsealed SET since = since - interval '2 min'")
    assert app("audit", person=BO).warning[0].value.startswith("1 entry waits for a seal for over a minute.")


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (Break(18_231, "It was changed."), "Entry 18,231 does not fit the one before it."),
        (
            Break(9, f"{audit_memory.ENDS_EARLY} 9: 2 that somebody kept are gone."),
            "The record ends too early, behind entry 9.",
        ),
        (None, "The record is whole: 20,914 entries, checked at 09:40 UTC."),
    ],
)
def test_the_heading_is_the_answer(check: Break | None, words: str) -> None:
    from tests.dashboard.test_words import NOW

    found = Check(NOW.replace(minute=40), "Bo", 20_914, check, None, 0)
    assert whole_or_not(Standing(20_914, 0, found, NOW)) == words


# ── Who sees what ─────────────────────────────────────────────────────────────────────────────────────


def test_support_sees_own_acts_and_no_buttons(app: App, entries: Database) -> None:
    at = app("audit", person=ANA)
    assert rows(at) == ["2", "1"]
    labels = [button.label for button in at.button]
    assert "Check the record now" not in labels and "Export…" not in labels
    assert [box.label for box in at.selectbox] == ["Did", "To what", "When", "Outcome"]
    assert any(c.value.startswith("You see your own acts.") for c in at.caption)


def test_support_does_not_see_anothers_entry_by_its_address(app: App, entries: Database) -> None:
    at = app("audit", person=ANA, entry="3", who="2")
    assert rows(at) == ["2", "1"] and any(NOTHING in block.value for block in at.markdown)


def test_an_engineer_reads_everything_and_hands_nothing_out(app: App, entries: Database) -> None:
    at = app("audit", person=EVA)
    assert rows(at) == ["3", "2", "1"]
    assert "Export…" not in [button.label for button in at.button]


def test_a_viewer_is_told_that_the_record_is_not_theirs(app: App, entries: Database) -> None:
    configuration = Path(os.environ["NOTTWICE_CONFIG"])
    configuration.write_text(configuration.read_text().replace('role = "support"', 'role = "viewer"'))
    at = app("audit")
    assert titles(at) == ["The record is not open to viewers."] and not at.dataframe
    assert "Support reads its own acts here" in at.caption[0].value


# ── What is asked for ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ({"who": "1"}, ["2", "1"]),
        ({"about": "event"}, ["3"]),
        ({"about": "action", "number": "2"}, ["2"]),
        ({"outcome": "failed"}, []),
        ({"when": "today"}, ["3", "2", "1"]),
        ({"when": "days", "first": "2001-01-01", "last": "2001-12-31"}, []),
        ({"did": "closed as sent", "who": "2"}, ["3"]),
        # What is not understood asks for nothing (UI-18).
        ({"who": "1'--", "about": "x", "number": "9" * 40, "outcome": "-1", "when": "x"}, ["3", "2", "1"]),
        ({"when": "days", "first": "![x](http://x)", "last": "9999-99-99"}, ["3", "2", "1"]),
        ({"about": "action", "number": "١"}, ["2", "1"]),
        ({"did": "![x](http://198.51.100.7/x.png)" * 300}, []),
    ],
)
def test_the_address_chooses(app: App, entries: Database, address: dict[str, str], found: list[str]) -> None:
    assert rows(app("audit", person=BO, **address)) == found


def test_a_choice_stands_in_the_address_and_persons_by_number(app: App, entries: Database) -> None:
    at = app("audit", person=BO)
    at = at.selectbox(key="audit_who").select_index(2).run()
    assert rows(at) == ["2", "1"] and "1" in at.query_params["who"]
    at = next(b for b in at.button if b.label == "Show all").click().run()
    assert rows(at) == ["3", "2", "1"] and "who" not in at.query_params


def test_pages_go_on_and_back(app: App, database: Database) -> None:
    tried(database, person(database, "Ana Soto", Role.SUPPORT), 27)
    at = app("audit", person=BO)
    assert len(rows(at)) == 25
    at = next(b for b in at.button if b.label == "Next 25").click().run()
    assert rows(at) == ["2", "1"]
    at = next(b for b in at.button if b.label == "Previous 25").click().run()
    assert len(rows(at)) == 25


@pytest.mark.parametrize("address", ["0", "x", "١", "999999999999999999", "9" * 40])
def test_an_entry_that_is_not_there_says_one_sentence(app: App, entries: Database, address: str) -> None:
    at = app("audit", person=BO, entry=address)
    assert not at.exception and any(NOTHING in block.value for block in at.markdown)


# ── AUD-05: what happened, not what was wished ────────────────────────────────────────────────────────


def acted(app: App, what: str, send: int, *, person: int) -> str:
    app("me")  # opens the house
    source = f"""
import uuid
import streamlit as st
from dashboard import session
from ledger import decisions
from ledger.records import Seen
seen = Seen(*session.read(lambda tx: tuple(tx.one("SELECT version, content_digest FROM nottwice.actions WHERE id = {send}"))))
do = lambda tx, act: decisions.{what}(tx, {send}, seen, act)
st.text(type(session.act("{what}", {send}, do, form=uuid.uuid4(), why="try")).__name__)
"""
    at = AppTest.from_string(source, default_timeout=40)
    at.session_state["person"] = person
    at.run()
    assert not at.exception, at.exception
    return str(at.text[0].value)


def noted(database: Database) -> tuple[str, str, str | None, str | None, str]:
    row = database.run(lambda tx: tx.one("SELECT * FROM nottwice.audit ORDER BY id DESC LIMIT 1"))
    return row.act, row.outcome, row.state_before, row.state_after, row.detail


def test_aud_05_a_try_again_of_what_was_settled_a_moment_ago_is_refused(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Your receipt"))
    house.run(
        "UPDATE nottwice.actions SET state = 'sent', review_since = NULL, settled_at = now() WHERE id = :id",
        id=send,
    )
    assert acted(app, "requeue", send, person=ANA) == "Refused"
    assert noted(house.db) == ("requeue", "refused", "sent", "sent", "This send is sent. Nothing was done.")


def test_aud_05_an_approval_without_the_right_is_refused(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Your receipt"))
    assert acted(app, "approve", send, person=EVA) == "Refused"
    act, outcome, before, after, detail = noted(house.db)
    assert (act, outcome, before, after) == ("approve", "refused", "needs_review", "needs_review")
    assert detail == "You can read this. Support or admin decides."


def test_aud_05_what_the_database_stops_is_a_failed_try(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Your receipt"))
    house.run(
        "UPDATE nottwice.actions SET state = 'failed', review_since = NULL, settled_at = now() WHERE id = :id",
        id=send,
    )
    house.run(
        """CREATE FUNCTION public.broken() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'disk full' USING ERRCODE = '53100'; END $$"""
    )
    house.run(
        "CREATE TRIGGER broken BEFORE UPDATE ON nottwice.actions FOR EACH ROW EXECUTE FUNCTION public.broken()"
    )
    assert acted(app, "requeue", send, person=ANA) == "TryAgain"
    act, outcome, before, after, detail = noted(house.db)
    assert (act, outcome, before, after, bool(detail)) == ("requeue", "failed", "failed", "failed", True)
    assert house.db.run(lambda tx: tx.one("SELECT count(*) AS n FROM nottwice.audit")).n == 1


def test_what_an_address_has_and_nobody_understands_is_said(app: App, entries: Database) -> None:
    at = app("audit", person=1, who="<script>", outcome="xyz", about="event", number="-1", first="2026-01-01")
    assert [w.value.partition(" that ")[0] for w in at.warning] == [
        "**This address has something for Who, Number, Outcome"
    ]
    assert not app("audit", person=1, outcome="done", when="7d", last="2026-01-01").warning


def test_an_entry_leads_to_all_entries_about_the_same_thing(app: App, entries: Database) -> None:
    newest = entries.run(lambda tx: tx.one("SELECT max(id) AS id FROM nottwice.audit WHERE entity_id > 0"))
    about = entries.run(
        lambda tx: tx.one("SELECT entity, entity_id FROM nottwice.audit WHERE id = :id", id=newest.id)
    )
    at = app("audit", person=1, who="1", entry=str(newest.id))
    next(button for button in at.button if button.label == "All entries about it").click().run()
    assert not at.exception
    asked = {name: "".join(value) for name, value in at.query_params.items()}
    assert asked == {"about": about.entity, "number": str(about.entity_id)}
