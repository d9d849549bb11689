"""The Reprocess page: what a plan says before anybody presses, who may, and that a press does exactly what was on the page."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.screens import reprocess_choice
from ledger.records.reprocess import RunMode
from tests.dashboard.conftest import App, seen_at_900_px
from tests.fix_reprocess import Shop

SUPPORT, ADMIN, ENGINEER = 0, 1, 2
GRANTED = """GRANT INSERT (person_id, role, act, entity, entity_id, entity_version, outcome, why, looked_at, known, state_before,
                           state_after, detail, form_id) ON nottwice.audit TO nottwice_engineer"""
AGAIN, SEND = RunMode.RECOMPUTE, RunMode.REPEAT


def titles(at: AppTest) -> list[str]:
    assert not at.exception, at.exception
    return [title.value for title in at.title]


def said(at: AppTest) -> str:
    """Everything that reads as words, ours and strangers'."""
    assert not at.exception, at.exception
    kinds = (at.markdown, at.caption, at.info, at.warning, at.success, at.text)
    html = (str(block.proto.body) for block in at.get("html"))
    return "\n".join([*(one.value for kind in kinds for one in kind), *html])


def buttons(at: AppTest) -> list[str]:
    return [button.label for button in at.button]


def press(at: AppTest, label: str) -> AppTest:
    next(button for button in at.button if button.label == label).click()
    return at.run()


def planned(app: App, *events: int, mode: RunMode = AGAIN, person: int = ENGINEER) -> AppTest:
    at = app("reprocess", person=person, event=", ".join(map(str, events)))
    assert not at.exception, at.exception
    at.radio(key="rerun_mode").set_value(mode).run()
    return at


def picked(app: App, shop: Shop, *events: int, person: int = SUPPORT) -> AppTest:
    at = press(planned(app, *events, mode=SEND, person=person), "Pick what to send again")
    for action_id, _, _, _ in shop.actions():
        at.checkbox(key=f"pick_action {action_id}").check().run()
    return at


def asked(at: AppTest, label: str, why: str = "The tax rate was wrong.") -> AppTest:
    at.text_input(key="rerun_why").set_value(why)
    return press(at, label)


def table(at: AppTest, n: int = 0) -> Any:
    return at.dataframe[n].value


# ── The list ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_page_says_what_it_is_for_and_that_deleting_is_no_way(app: App) -> None:
    at = app("reprocess", person=ENGINEER)
    assert titles(at) == ["Nothing has been run again."]
    assert "Deleting a row is no way to run it again" in said(at)
    assert "Run something again" in buttons(at)


def test_the_list_names_each_run_with_its_results(shop: Shop, app: App) -> None:
    one, two, three = shop.sell(3)
    shop.settle()
    shop.finish(shop.recompute(one, two))
    shop.ask(shop.plan(SEND, action_ids=(shop.actions()[0][0],)))
    at = app("reprocess", person=ADMIN)
    assert titles(at) == ["1 run waits for a second person."]
    waits, done = table(at).to_dict("records")
    assert (done["By"], done["Rows"], done["Done"], done["Left alone"], done["Failed"]) == ("Engineer", "2", "2", "0", "0")  # fmt: skip
    assert {"Started (UTC)", "By", "What", "State"} <= set(seen_at_900_px(at.dataframe[0]))
    assert (waits["State"], done["State"]) == (["Waits for a second person"], ["Done"])
    assert done["What"] == f"Work it out again: events {one}, {two}" and three
    assert titles(press(at, "Open the newest")) == ["1 e-mail: a second person must agree first."]


# ── A plan ────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_preselected_and_the_count_is_exact(shop: Shop, app: App) -> None:
    shop.sell(3)
    at = app("reprocess", person=ADMIN, plan="new", source="shop")
    assert "**3 events fit.**" in said(at) and at.radio(key="rerun_mode").value is None
    assert not at.dataframe and "3 · What will happen" not in [head.value for head in at.subheader]
    at.text_input(key="rerun_type").input("never").run()
    assert "**No event fits.**" in said(at) and dict(at.query_params)["type"] in ("never", ["never"])
    assert not at.radio
    empty = app("reprocess", person=ADMIN, plan="new")
    assert "Choose a source, a type or a time" in said(empty) and not empty.radio


def test_a_plan_says_of_each_row_whether_it_runs_and_that_nothing_is_sent(shop: Shop, app: App) -> None:
    one, two = shop.sell(2)
    shop.settle()
    (pending,) = shop.workshop.accept("sale")
    at = planned(app, one, two, pending)
    words = "2 results will be worked out again, 1 stays as it is. **Nothing will be sent.**"
    assert words in said(at)
    assert "Receipt, sent: 2" in said(at)
    rows = table(at).to_dict("records")
    assert [(row["Event"], row["Will it run"], row["Why not"], row["Recipient"]) for row in rows] == [
        (str(pending), ["No"], "It waits for its turn already.", "nobody"),
        (str(one), ["Yes"], "", "nobody"),
        (str(two), ["Yes"], "", "nobody"),
    ]
    assert "Work out 2 results again" in buttons(at)


def test_a_press_begins_exactly_the_rows_on_the_page(shop: Shop, app: App) -> None:
    one, two = shop.sell(2)
    at = planned(app, one, two)
    at = press(at, "Work out 2 results again")
    assert "Nothing was begun. Please say why." in said(at)
    at = asked(at, "Work out 2 results again")
    assert titles(at) == ["0 of 2 rows have their result."] and dict(at.query_params)["run"] in ("1", ["1"])
    assert shop.finish(1) == [("done", ""), ("done", "")]
    assert shop.entries("reprocess") == [("recompute local results", "Eva Horn", None, "running")]
    done = app("reprocess", person=ENGINEER, run="1")
    assert titles(done) == ["It is done: 2 worked out again."]
    assert [row["Result"] for row in table(done).to_dict("records")] == [["Done"], ["Done"]]


def test_what_changed_since_the_plan_was_read_is_left_out_and_said(shop: Shop, app: App) -> None:
    one, two, three = shop.sell(3)
    at = planned(app, one, two, three)
    shop.finish(shop.recompute(two))
    at = asked(at, "Work out 3 results again")
    assert "**1 row changed while you had the list open** and was left out." in said(at)
    assert shop.rows(2) == [
        ("waiting", ""),
        ("skipped", "It changed since it was looked at."),
        ("waiting", ""),
    ]


def test_aud_01_without_its_audit_row_nothing_begins(shop: Shop, app: App) -> None:
    (one,) = shop.sell()
    shop.workshop.run("REVOKE INSERT ON nottwice.audit FROM nottwice_engineer")
    try:
        at = asked(planned(app, one), "Work out 1 result again")
    finally:
        shop.workshop.run(GRANTED)
    assert "This could not be written down, so nothing was done." in said(at)
    assert shop.workshop.value("SELECT count(*) FROM nottwice.reprocess_runs") == 0
    asked(at, "Work out 1 result again")
    assert shop.entries("reprocess") == [("recompute local results", "Eva Horn", None, "running")]


def test_two_presses_are_one_run(shop: Shop, app: App) -> None:
    """A second tab with the same list, and a press after the first run began: both lead to the first run."""
    (one,) = shop.sell()
    first, second = planned(app, one), planned(app, one)
    asked(first, "Work out 1 result again")
    shop.turn()
    at = asked(second, "Work out 1 result again")
    assert "Already done: you asked for this" in said(at) and dict(at.query_params)["run"] in ("1", ["1"])
    assert shop.workshop.value("SELECT count(*) FROM nottwice.reprocess_runs") == 1


def test_it_can_be_tried_out_first_and_what_would_be_new_is_listed(shop: Shop, app: App) -> None:
    (one,) = shop.sell()
    shop.settle()
    shop.text, shop.keys = "Paid in full.", ("receipt:{id}", "thanks:{id}")
    asked(planned(app, one), "Try it out first")
    shop.finish(1)
    at = app("reprocess", person=ADMIN, run="1")
    assert titles(at) == ["It is done: 1 tried out."]
    found = table(at, 1).to_dict("records")
    assert [(row["Found"], row["Key"], row["To"]) for row in found] == [
        ("would differ from send 1", f"receipt:{one}", "ann@example.com"),
        ("would be new", f"thanks:{one}", "ann@example.com"),
    ]
    at = press(at, "Show what finding 2 would send")
    assert any("Paid in full." in block.value for block in at.code)
    assert shop.entries("finding") == [("reveal", "Bo Lindqvist", None, None)]
    links = {link.proto.label: link.proto.query_string for link in at.get("page_link")}
    assert links["Pick what to send again"] == f"event={one}"
    picks = press(planned(app, one, mode=SEND, person=ADMIN), "Pick what to send again")
    assert {"pick_action 1", "pick_finding 1", "pick_finding 2"} == {str(box.key) for box in picks.checkbox}


# ── Sending again ─────────────────────────────────────────────────────────────────────────────────────


def test_each_send_is_picked_and_the_button_names_the_act(shop: Shop, app: App) -> None:
    events = shop.sell(2)
    shop.settle()
    at = picked(app, shop, *events)
    assert "**2 e-mails will go to 1 person.**" in said(at)
    assert [row["Recipient"] for row in table(at).to_dict("records")] == ["ann@example.com"] * 2
    at = asked(at, "Ask a second person: 2 e-mails to 1 person", "The customer asked.")
    assert titles(at) == ["2 e-mails: a second person must agree first."]
    assert "You asked for this yourself. Somebody else must agree." in said(at)
    assert not any("Agree" in label for label in buttons(at))
    assert shop.state(1) == "waiting" and len(shop.actions()) == 2


def test_a_second_person_says_what_they_looked_at_before_they_see_why(shop: Shop, app: App) -> None:
    (event,) = shop.sell()
    shop.settle()
    asked(picked(app, shop, event), "Ask a second person: 1 e-mail to 1 person", "The customer asked.")
    at = app("reprocess", person=ADMIN, run="1")
    assert "**Ana Soto asks you to agree: send again with new keys, 1 e-mail.**" in said(at)
    folded = next(one for one in at.expander if one.label == "Why Ana Soto asks")
    assert [text.value for text in folded.text] == ["The customer asked."]
    assert "The customer asked." not in [block for block in said(at).split("\n") if "nt-facts" in block]
    at = press(at, "Agree, send it")
    assert "Please say what you looked at and why." in said(at) and shop.state(1) == "waiting"
    at.button_group[-1].set_value(["Our own records"])
    at.text_input(key="rerun_why_1").set_value("I spoke to her.")
    at = press(at, "Agree, send it")
    assert titles(at) == ["0 of 1 row has its result."]
    shop.finish(1)
    assert [state for *_, state in shop.actions()] == ["sent", "approved"]
    entry = shop.workshop.rows("SELECT why, looked_at FROM nottwice.audit WHERE act LIKE 'agreed%'")
    assert [tuple(row) for row in entry] == [("I spoke to her.", ["Our own records"])]
    done = app("reprocess", person=ADMIN, run="1")
    assert table(done).iloc[0]["What came of it"] == "Send 2: approved" and "Bo Lindqvist agreed" in said(
        done
    )


def test_who_answers_second_is_told_who_was_first(shop: Shop, app: App) -> None:
    (event,) = shop.sell()
    shop.settle()
    asked(picked(app, shop, event, person=ENGINEER), "Ask a second person: 1 e-mail", "The customer asked.")
    ana, bo = (app("reprocess", person=person, run="1") for person in (SUPPORT, ADMIN))
    press(ana, "Do not agree")
    at = press(bo, "Do not agree")
    assert "**Not done. Ana Soto was first.** Ana Soto did not agree to this" in said(at)
    assert titles(at) == ["A second person did not agree. Nothing was done."]


def test_a_request_that_something_was_learnt_about_cannot_be_agreed_to(shop: Shop, app: App) -> None:
    (event,) = shop.sell()
    shop.settle()
    asked(picked(app, shop, event), "Ask a second person: 1 e-mail to 1 person")
    shop.workshop.run("UPDATE nottwice.actions SET version = version + 1")
    at = app("reprocess", person=ADMIN, run="1")
    assert "Nobody can agree to it any more" in said(at) and "Agree, send it" not in buttons(at)


def test_a_run_is_stopped_after_the_current_one(shop: Shop, app: App) -> None:
    run = shop.recompute(*shop.sell(3))
    shop.workshop.run("UPDATE nottwice.reprocess_runs SET under_way_max = 1")
    shop.turn()
    at = app("reprocess", person=ENGINEER, run=str(run))
    assert "The one under way finishes. 0 are done and stay done. 2 will not start." in said(at)
    at = press(at, "Stop after the current one")
    shop.work_off()
    at = app("reprocess", person=ENGINEER, run=str(run))
    assert titles(at) == ["It was stopped: 1 are done and stay done."]
    assert "stopped by Eva Horn" in said(at)
    assert [row["Result"] for row in table(at).to_dict("records")] == [["Done"], ["Not begun"], ["Not begun"]]


# ── The ways there ────────────────────────────────────────────────────────────────────────────────────


def test_an_event_leads_to_a_plan_with_it_and_review_to_a_run_that_waits(shop: Shop, app: App) -> None:
    (event,) = shop.sell()
    shop.settle()
    links = {link.proto.label: link.proto for link in app("events", event=str(event)).get("page_link")}
    assert links["Run it again…"].query_string == f"event={event}"
    shop.ask(shop.plan(SEND, action_ids=(shop.actions()[0][0],)))
    desk = app("review")
    desk.session_state["segment"] = "second_person"
    desk.run()
    assert not desk.exception and "Second person · 1" in str(desk.button_group[0].options)
    links = {link.proto.label: link.proto for link in desk.get("page_link")}
    assert links["1 e-mail: Engineer asks for a second person"].query_string == "run=1"


def test_what_takes_too_long_is_stopped_and_said(shop: Shop, app: App) -> None:
    shop.recompute(*shop.sell())
    with shop.workshop.database.transaction() as tx:
        tx.execute("LOCK TABLE nottwice.reprocess_runs")
        at = app("reprocess", person=ENGINEER)
    assert "**This took longer than 2 s and was stopped.**" in said(at)


def test_more_than_fit_one_page_come_with_the_command_that_takes_them(
    shop: Shop, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sell(2)
    monkeypatch.setattr(reprocess_choice, "MOST", 1)
    at = app("reprocess", person=ENGINEER, plan="new", source="shop")
    assert "**More than 1 events fit.**" in said(at) and "50,000 at most" in said(at)
    (written,) = at.code
    assert shlex.split(written.value) == ["nottwice", "reprocess", "--source=shop"]
    at = app("reprocess", person=ENGINEER, event="7, 9")
    assert shlex.split(at.code[0].value)[2:] == ["--event=7", "--event=9"]
    choice = reprocess_choice.Choice(
        type="paid; rm -rf '/'", state="failed", since=datetime(2026, 11, 30, 9, 41, tzinfo=UTC)
    )
    quoted = shlex.split(reprocess_choice.command(choice))
    assert quoted[2:] == ["--type=paid; rm -rf '/'", "--state=failed", "--since=2026-11-30T09:41"]


# ── Who may, and addresses that name nothing ──────────────────────────────────────────────────────────


def test_support_may_only_ask_to_send_again(shop: Shop, app: App) -> None:
    (event,) = shop.sell()
    at = app("reprocess", person=SUPPORT, event=str(event))
    assert list(at.radio(key="rerun_mode").options) == ["**Send again. People get mail.**"]
    assert "**Work it out again** is for engineers and admins." in said(at)


def test_an_engineer_sees_no_address_whole(shop: Shop, app: App) -> None:
    (event,) = shop.sell()
    shop.settle()
    at = picked(app, shop, event, person=ENGINEER)
    assert "a•••@example.com" in said(at) and "ann@example.com" not in said(at)
    assert "Ask a second person: 1 e-mail" in buttons(at)
    assert table(at).iloc[0]["Recipient"] == "a•••@example.com"


@pytest.mark.parametrize("address", ["0", "1'--", "![x](http://198.51.100.7)", "-1", "9" * 40])
def test_ui_18_an_address_that_names_no_run_says_one_sentence(app: App, address: str) -> None:
    assert titles(app("reprocess", run=address)) == ["There is nothing here, or you may not see it."]
