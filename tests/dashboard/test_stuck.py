"""The Stuck work page: what each segment says, what may be done with what was picked, by whom, and who is told what."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import session
from ledger.database import Database
from ledger.events import by_two, recovery
from ledger.records import Act, Person, Role
from ledger.sign_in import people
from tests.dashboard.conftest import App
from tests.fix_seed import House
from tests.fix_stuck import Stuck

SUPPORT, ADMIN, ENGINEER = 0, 1, 2
NOTHING = "There is nothing here, or you may not see it."


@pytest.fixture
def stuck(house: House) -> Stuck:
    return Stuck(house)


def title(at: AppTest) -> str:
    assert not at.exception, at.exception
    return str(at.title[0].value)


def rows(at: AppTest) -> list[dict[str, str]]:
    assert not at.exception, at.exception
    table: Any = at.dataframe[0].value
    return [dict(row) for row in table.to_dict("records")]


def words(at: AppTest) -> str:
    """All that stands on the page outside its tables."""
    assert not at.exception, at.exception
    shown = [str(element.proto.body) for element in at.get("html")]
    return " ".join(
        shown
        + [
            str(b.value)
            for kind in ("caption", "markdown", "info", "success", "warning")
            for b in at.get(kind)
        ]
    )


def picks(at: AppTest, *places: int) -> AppTest:
    """As a click on rows does: its callback notes them, then the page runs."""
    at.session_state["stuck_chosen"] = places
    return at.run()


def buttons(at: AppTest) -> list[str]:
    return [button.label for button in at.button if str(button.key).startswith("stuck_do_")]


def audited(database: Database) -> list[tuple[Any, ...]]:
    found = database.run(
        lambda tx: tx.all("SELECT entity, entity_id, act, outcome, why FROM nottwice.audit ORDER BY id")
    )
    return [tuple(row) for row in found]


def does(at: AppTest, deed: str, why: str = "it hangs") -> AppTest:
    """Press, say why, press the button that names the act."""
    at.button(key=f"stuck_do_{deed}").click().run()
    return says(at, deed, why)


def says(at: AppTest, deed: str, why: str) -> AppTest:
    """In the dialog that asks once more."""
    at.text_input(key=f"stuck_why_bar_{deed}").input(why)
    (submit,) = (b for b in at.button if str(b.key).startswith(f"FormSubmitter:stuck_form_bar_{deed}"))
    return submit.click().run()


# ── What it says ──────────────────────────────────────────────────────────────────────────────────────


def test_a_house_in_order_says_what_would_show_here(app: App, stuck: Stuck) -> None:
    at = app("stuck", person=ENGINEER)
    assert title(at) == "Nothing is stuck."
    assert "A worker that gives no sign until its lease ends has lost its work" in words(at)
    assert not at.dataframe and "Open the oldest" not in [b.label for b in at.button]


def test_the_heading_counts_and_says_what_frees_itself(app: App, stuck: Stuck) -> None:
    stuck.in_hand("over", left_s=-14.0)
    stuck.failed("evt_1")
    stuck.unhandled("evt_2")
    stuck.overdue("late")
    at = app("stuck", person=ENGINEER)
    assert title(at) == "3 pieces of work are stuck. 1 frees itself within 5 s. 1 waits too long."
    labels = [option.content for option in at.get("button_group")[0].proto.options]
    assert labels == ["Past its lease · 1", "Set aside · 1", "Nobody handles · 1", "Waiting too long · 1"]
    assert at.session_state["pages"]["stuck"].title == "Stuck work · 3"


def test_it_opens_on_the_first_that_holds_something(app: App, stuck: Stuck) -> None:
    stuck.failed("evt_1")
    at = app("stuck", person=ENGINEER)
    assert at.button_group[0].value == "aside" and len(rows(at)) == 1
    asked = app("stuck", person=ENGINEER, show="past")
    assert asked.button_group[0].value == "past" and not asked.dataframe


def test_filters_stand_in_the_address(app: App, stuck: Stuck) -> None:
    stuck.unhandled("evt_9")
    at = app("stuck", person=ENGINEER, show="unhandled", type="invoice.paid")
    assert "Nothing that is stuck fits" in words(at)
    at.text_input(key="stuck_type").input("invoice.voided").run()
    assert len(rows(at)) == 1 and dict(at.query_params) == {"show": "unhandled", "type": "invoice.voided"}
    assert at.selectbox(key="stuck_source").options[0] == "All"


def test_pages_follow_each_other(app: App, stuck: Stuck) -> None:
    for n in range(27):
        stuck.unhandled(f"evt_{n:02}")
    at = app("stuck", person=ENGINEER, show="unhandled")
    assert len(rows(at)) == 25
    next(b for b in at.button if b.label == "Next 25").click().run()
    assert [row["What"] for row in rows(at)] == ["invoice.voided evt_25", "invoice.voided evt_26"]
    next(b for b in at.button if b.label == "Previous 25").click().run()
    assert len(rows(at)) == 25


# ── What may be done, by whom ─────────────────────────────────────────────────────────────────────────


def test_only_what_fits_is_offered_and_a_mixed_choice_says_why(app: App, stuck: Stuck) -> None:
    stuck.failed("evt_1", ago_s=60.0)
    stuck.given_up("RF-220")
    at = app("stuck", person=ENGINEER, show="aside")
    assert buttons(at) == []
    picks(at, 0)
    assert buttons(at) == ["Try it again"]
    picks(at, 0, 1)
    assert buttons(at) == ["Try it again"]
    assert "1 of 2 can be tried again." in words(at) and "Support or admin decides sends." in words(at)
    both = picks(app("stuck", person=ADMIN, show="aside"), 0, 1)
    assert buttons(both) == ["Try 2 again"]
    assert buttons(picks(app("stuck", person=SUPPORT, show="aside"), 0, 1)) == ["Try it again"]


def test_a_viewer_reads_and_is_offered_nothing(
    app: App, stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck.in_hand("over", left_s=-14.0)
    at = app("stuck", person=SUPPORT)
    picks(at, 0)
    assert buttons(at) == [] and "Nothing can be done here with what is picked." in words(at)


def test_several_are_tried_again_each_with_its_entry(app: App, stuck: Stuck, database: Database) -> None:
    first, second = stuck.failed("evt_1", ago_s=60.0), stuck.failed("evt_2")
    at = picks(app("stuck", person=ENGINEER, show="aside"), 0, 1)
    does(at, "again", " ")
    assert "Nothing was done. Please say why." in words(at) and audited(database) == []
    says(at, "again", "the shop answers")
    assert "2 pieces of work were tried again. Each has its entry in the audit." in words(at)
    assert audited(database) == [
        ("event", n, "try again", "done", "the shop answers") for n in (first, second)
    ]
    assert title(at) == "Nothing is stuck." and {stuck.book.event(n).state for n in (first, second)} == {
        "pending"
    }


@pytest.mark.parametrize(
    ("deed", "act", "state"), [("back", "hand back", "pending"), ("aside", "set aside", "failed")]
)
def test_an_expired_lease_is_handed_back_or_set_aside(
    app: App, stuck: Stuck, database: Database, deed: str, act: str, state: str
) -> None:
    event_id = stuck.in_hand("over", left_s=-14.0)
    at = picks(app("stuck", person=ENGINEER), 0)
    assert buttons(at) == ["Set it aside", "Hand it back"]
    does(at, deed)
    assert audited(database) == [("event", event_id, act, "done", "it hangs")]
    assert stuck.book.event(event_id).state == state


def test_an_admin_tries_a_send_again_that_was_given_up(app: App, stuck: Stuck, database: Database) -> None:
    send = stuck.given_up("RF-220")
    does(picks(app("stuck", person=ADMIN, show="aside"), 0), "again")
    assert audited(database) == [("action", send, "try again", "done", "it hangs")]
    assert stuck.book.value("SELECT state FROM nottwice.actions WHERE id = :id", id=send) == "approved"


def test_c10_what_changed_meanwhile_is_left_alone_and_told(
    app: App, stuck: Stuck, database: Database
) -> None:
    """One was tried again by somebody else, one was worked, one is as it was."""
    ids = [stuck.failed(f"evt_{n}", ago_s=60.0 - n) for n in range(3)]
    at = picks(app("stuck", person=ENGINEER, show="aside"), 0, 1, 2)
    bo: Person = database.run(lambda tx: people.person(tx, "local", "bo", "Bo Lindqvist", "", Role.ADMIN))
    form = Act(bo, stuck.book.writer, "mine")
    version = stuck.book.event(ids[0]).version
    database.run(lambda tx: recovery.requeue(tx, ids[0], version, form), role=None)
    stuck.house.run("UPDATE nottwice.events SET version = version + 1 WHERE id = :id", id=ids[1])
    does(at, "again")
    text = words(at)
    assert "1 piece of work was tried again. 2 of 3 were left alone." in text
    assert "Bo Lindqvist was first, at " in text and "It changed while you had it open." in text
    assert [(id_, outcome) for _, id_, _, outcome, _ in audited(database)] == [
        (ids[0], "done"),
        (ids[0], "refused"),
        (ids[1], "refused"),
        (ids[2], "done"),
    ]


def test_what_is_picked_stays_what_it_was_when_others_come(
    app: App, stuck: Stuck, database: Database
) -> None:
    """A selection is of rows that were read: what comes ahead of them meanwhile does not slip under it."""
    mine = stuck.failed("mine", ago_s=10.0)
    at = picks(app("stuck", person=ENGINEER, show="aside"), 0)
    stuck.failed("older", ago_s=900.0)
    does(at, "again")
    assert [row[1] for row in audited(database)] == [mine]


def test_aud_01_without_its_audit_row_nothing_is_done(app: App, stuck: Stuck) -> None:
    event_id = stuck.failed("evt_1")
    at = picks(app("stuck", person=ENGINEER, show="aside"), 0)
    stuck.house.run("REVOKE INSERT ON nottwice.audit FROM nottwice_engineer")
    does(at, "again")
    assert "This could not be written down, so nothing was done." in words(at)
    assert stuck.book.event(event_id).state == "failed"


# ── Many ──────────────────────────────────────────────────────────────────────────────────────────────


def many_failed(stuck: Stuck, n: int, *, above: int) -> list[int]:
    """So many that are set aside, where one person may act on `above` within an hour."""
    ids = stuck.book.stored(*(f"evt_{i:03}" for i in range(n)), source="billing")
    stuck.house.run(
        "UPDATE nottwice.events SET state = 'failed', due_at = NULL, ended_at = now(), attempts = 5"
    )
    stuck.house.run("INSERT INTO nottwice.reprocess_limit (second_person_above) VALUES (:n)", n=above)
    return ids


def test_aud_03_all_that_fit_are_tried_again_each_on_record(
    app: App, stuck: Stuck, database: Database
) -> None:
    """Those that changed state while the question stood are left alone and told; a second press takes the rest only."""
    ids = many_failed(stuck, 40, above=100)
    at = app("stuck", person=ENGINEER, show="aside")
    at.button(key="stuck_do_all").click().run()
    stuck.house.run("UPDATE nottwice.events SET version = version + 1 WHERE id % 5 = 0")
    at.text_input(key="stuck_why_bar_again").input("the shop answers")
    (submit,) = (b for b in at.button if str(b.key).startswith("FormSubmitter:stuck_form_bar_again"))
    submit.click().run()
    left = sum(id_ % 5 == 0 for id_ in ids)
    assert f"{40 - left} pieces of work were tried again. {left} of 40 were left alone." in words(at)
    outcomes = [outcome for *_, outcome, _ in audited(database)]
    assert (outcomes.count("done"), outcomes.count("refused")) == (40 - left, left)
    assert title(at).startswith(f"{left} pieces of work are stuck.") and "stuck_do_all" not in [
        b.key for b in at.button
    ]


def test_c9_above_the_number_somebody_else_agrees_and_it_is_done(
    app: App, stuck: Stuck, database: Database
) -> None:
    many_failed(stuck, 30, above=20)
    eva = app("stuck", person=ENGINEER, show="aside")
    eva.button(key="stuck_do_all").click().run()
    assert "These are 30 events: together more than 20. A second person must agree." in words(eva)
    eva.text_input(key="stuck_why_bar_again").input("the shop answers")
    (submit,) = (b for b in eva.button if b.label == "Ask a second person")
    submit.click().run()
    assert "Asked. Nothing has been done yet" in words(eva) and "You asked for this yourself." in words(eva)
    assert stuck.book.value("SELECT count(*) FROM nottwice.events WHERE state = 'failed'") == 30
    bo = app("stuck", person=ADMIN, show="aside")
    assert "Eva Horn asks you to agree: try 30 events again." in words(bo)
    bo.text_input(key="stuck_second_why_1").input("I looked")
    next(b for b in bo.button if b.label == "Agree, and do it").click().run()
    assert "30 pieces of work were tried again. Each has its entry in the audit." in words(bo)
    acts = [(act, outcome) for _, _, act, outcome, _ in audited(database)]
    assert (
        acts
        == [("asked a second person: try again", "done"), ("agreed: try again", "done")]
        + [("try again", "done")] * 30
    )


def test_c9_who_agreed_and_was_interrupted_does_the_rest(app: App, stuck: Stuck) -> None:
    ids = many_failed(stuck, 30, above=20)
    eva = app("stuck", person=ENGINEER, show="aside")
    eva.button(key="stuck_do_all").click().run()
    eva.text_input(key="stuck_why_bar_again").input("the shop answers")
    next(b for b in eva.button if b.label == "Ask a second person").click().run()
    console, given = session.house().database, session.house().settings.console.people[ADMIN]
    who = console.run(lambda tx: people.local(tx, given))
    word, one = (Act(who, uuid4(), "I looked") for _ in range(2))
    request = console.run(lambda tx: by_two.agree(tx, 1, word), role=who.role)
    console.run(lambda tx: by_two.carry_out(tx, request, *request.rows[0], one), role=who.role)
    bo = app("stuck", person=ADMIN, show="aside")
    assert "You agreed to try 30 events again, and 1 of 30 are done, or have changed." in words(bo)
    assert "and 1 of 30 are done" not in words(app("stuck", person=ENGINEER, show="aside"))
    bo.text_input(key="stuck_rest_why_1").input("the rest of it")
    next(b for b in bo.button if b.label == "Do the rest").click().run()
    assert "29 pieces of work were tried again. Each has its entry in the audit." in words(bo)
    assert {stuck.book.event(n).state for n in ids} == {"pending"} and "Do the rest" not in [
        b.label for b in bo.button
    ]


# ── One event in its drawer ───────────────────────────────────────────────────────────────────────────


def test_the_oldest_opens_with_its_errors_and_leads_on(app: App, stuck: Stuck) -> None:
    first, second = stuck.failed("evt_1", error="<b>no</b>", ago_s=60.0), stuck.failed("evt_2")
    at = app("stuck", person=ENGINEER, show="aside")
    next(b for b in at.button if b.label == "Open the oldest").click().run()
    assert at.query_params["event"] == str(first)
    assert [block.value for block in at.code] == ["<b>no</b>"]
    assert "Failed 5 of 5 times: " in words(at)
    assert "Tries 1 to 5 ended alike: the last failed, and it was set aside" in words(at)
    at.button(key="stuck_next").click().run()
    assert at.query_params["event"] == str(second) and "stuck_next" not in [b.key for b in at.button]


def test_in_the_drawer_the_same_can_be_done(app: App, stuck: Stuck, database: Database) -> None:
    event_id = stuck.failed("evt_1")
    at = app("stuck", person=ENGINEER, show="aside", event=str(event_id))
    at.text_input(key="stuck_why_one_again").input("fixed")
    (submit,) = (b for b in at.button if str(b.key).startswith("FormSubmitter:stuck_form_one_again"))
    submit.click().run()
    assert audited(database) == [("event", event_id, "try again", "done", "fixed")]
    assert "1 piece of work was tried again." in words(at)


@pytest.mark.parametrize("address", ["![x](http://198.51.100.7)", "9" * 40])
def test_ui_18_an_address_that_names_nothing_says_one_sentence(app: App, stuck: Stuck, address: str) -> None:
    assert NOTHING in words(app("stuck", person=ENGINEER, event=address))
