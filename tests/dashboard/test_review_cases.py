"""UI-16 at the review desk: nothing of one person is shown to another, and nobody acts on what was true a while ago."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from streamlit.testing.v1 import AppTest

from dashboard.words import span
from ledger import decisions
from ledger.actions import answers
from ledger.records import Act, Evidence, PointsTo, Role, Seen
from ledger.sign_in import people
from tests.dashboard.conftest import App
from tests.fix_seed import RECEIPT, House, mail

SUPPORT, ADMIN, ENGINEER = 0, 1, 2


def opened(app: App, send: int, person: int) -> AppTest:
    at = app("review", person=person, send=str(send))
    assert not at.exception, at.exception
    return at


def pages(at: AppTest) -> str:
    return " ".join(block.proto.body for block in at.get("html"))


def test_ui_16_what_one_role_saw_is_not_shown_to_the_next(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    assert "ana.ruiz@example.com" in pages(opened(app, send, SUPPORT))
    masked = pages(opened(app, send, ENGINEER))
    assert "a•••@example.com" in masked and "ana.ruiz" not in masked
    table = app("review", person=SUPPORT).dataframe[0].value
    assert list(table["To"]) == ["ana.ruiz@example.com"]
    assert list(app("review", person=ENGINEER).dataframe[0].value["To"]) == ["a•••@example.com"]


def test_ui_16_after_an_act_the_actors_next_view_is_fresh(app: App, house: House) -> None:
    first, _ = (house.uncertain(RECEIPT, mail("ana@example.com", f"Receipt {n}"), ago_s=600) for n in (1, 2))
    assert app("review").title[0].value.startswith("2 sends wait for a decision.")
    at = opened(app, first, SUPPORT)
    at.radio[0].set_value(at.radio[0].options[-1]).run()
    at.button_group[0].set_value(["Only this page"])
    at.text_input(key=next(box.key for box in at.text_input if str(box.key).startswith("why_"))).set_value(
        "They called"
    )
    next(button for button in at.button if button.label == "Close without sending").click().run()
    assert not at.exception, at.exception
    assert app("review").title[0].value == f"1 send waits for a decision. The oldest has waited {span(600)}."
    closed = opened(app, first, SUPPORT)
    assert "nt-verdict nt-waiting" in pages(closed) and "nt-verdict nt-person" not in pages(closed)
    everything = " ".join(str(block.value) for block in [*closed.markdown, *closed.info, *closed.success])
    assert "Nothing goes out until somebody opens it again." in everything
    assert "What we know ourselves, apart from the decision:" in [block.value for block in closed.caption]


def test_a_number_that_nothing_of_ours_has_is_asked_about_once_more_by_the_button(
    app: App, house: House
) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Your receipt"), ago_s=600)
    at = opened(app, send, SUPPORT)
    at.radio[0].set_value(at.radio[0].options[0]).run()

    def typed(beginning: str, text: str) -> None:
        next(box for box in at.text_input if str(box.key).startswith(beginning)).set_value(text)

    def pressed() -> str:
        next(button for button in at.button if button.label == "Close as sent").click().run()
        assert not at.exception, at.exception
        return house.db.run(
            lambda tx: tx.one("SELECT state FROM nottwice.actions WHERE id = :id", id=send)
        ).state

    at.button_group[1].set_value(["Provider's own log"])
    typed("why_", "It stands there")
    typed("number_", "not a number at all")
    assert pressed() == "needs_review"
    assert [w.value.partition("** ")[2] for w in at.warning] == [
        "This number is on no notice and in no look-up of ours. Compare it once more."
    ]
    typed("read_in_", "Inboxili's log, 09:12")
    assert pressed() == "sent"


def test_ui_16_a_row_that_somebody_changes_is_shown_as_it_is_at_the_next_look(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    at = opened(app, send, SUPPORT)
    assert at.radio[0].label == "**What should happen?**"
    house.evidence(send, "Notice from inboxili", "It was delivered", "sent", proof=True)
    at.run()
    assert not at.exception and not at.radio
    assert "It went out." in pages(at)


def test_a_reason_that_is_too_long_is_told_and_not_dropped(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    at = opened(app, send, SUPPORT)
    at.radio[0].set_value(at.radio[0].options[-1]).run()
    at.button_group[0].set_value(["Only this page"])
    box = at.text_input(key=next(box.key for box in at.text_input if str(box.key).startswith("why_")))
    box.set_value("They called. " * 100)
    next(button for button in at.button if button.label == "Close without sending").click().run()
    assert [warning.value for warning in at.warning] == [
        "Nothing was done. Your words have 1,299 characters; the audit keeps 1,000. Please shorten them.",
    ]
    assert at.radio, "it waits for a decision as before"


def test_a_hint_does_not_look_like_a_proof_and_the_subject_can_be_copied(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt 7"), ago_s=600)
    house.evidence(send, "Notice from inboxili", "A message was delivered", "sent", proof=False)
    at = opened(app, send, SUPPORT)
    assert "▲ may be it" in pages(at) and "▲ it went out" not in pages(at)
    assert "Receipt 7" in [block.value for block in at.code]


def test_ui_09_a_page_that_starts_afresh_says_that_a_choice_is_gone(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    at = opened(app, send, SUPPORT)
    assert not at.info
    at.radio[0].set_value(at.radio[0].options[-1]).run()
    assert not at.info
    again = opened(app, send, SUPPORT)
    assert again.radio[0].value is None
    assert "not pressed is not here" in again.info[0].value
    assert not opened(app, send, ADMIN).info, "it was not this person"


def test_a_decision_that_proof_contradicts_is_told_on_its_send_and_above_what_was_decided(
    app: App, house: House
) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    at = opened(app, send, SUPPORT)
    at.radio[0].set_value(at.radio[0].options[-1]).run()
    at.button_group[0].set_value(["Only this page"])
    at.text_input(key=next(box.key for box in at.text_input if str(box.key).startswith("why_"))).set_value(
        "?!"
    )
    next(button for button in at.button if button.label == "Close without sending").click().run()
    house.evidence(send, "Notice from inboxili", "It was delivered", "sent", proof=True)
    told = opened(app, send, ADMIN).warning[0].value
    assert told.startswith("**This decision was contradicted later.**") and "it went out after all" in told
    queue = app("review")
    queue.button_group[0].set_value("decided_today").run()
    assert not queue.exception, queue.exception
    assert queue.warning[0].value.startswith("**1 decision was contradicted later.**")
    first, today = (table.value for table in queue.dataframe)
    assert list(first["But"]) == ["It went out after all"]
    assert list(today["Did"]) == ["⚠ closed without sending"]


def test_a_hint_that_was_taken_back_points_nowhere(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    for points_to, message in ((PointsTo.SENT, "m1"), (PointsTo.SENT, "m2"), (PointsTo.NEITHER, "m1")):
        one = Evidence("Our own records", f"About {message}", points_to, False, datetime.now(UTC), message)
        house.db.run(lambda tx, one=one: answers.add_evidence(tx, send, one))  # type: ignore[misc]
    seen = pages(opened(app, send, SUPPORT))
    assert "About m1 (another send" in seen and "About m2 (a hint, not a proof)" in seen
    assert "About m1 (a hint" not in seen


def test_decided_today_counts_what_was_decided(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    opened(app, send, SUPPORT)
    for act in (
        "asked a second person: send again with a new key",
        "withdrawn: a new key",
        "disagreed: a new key",
        "agreed: send again with a new key",
        "send again with a new key",
        "taken back",
        "opened again",
        "closed as sent",
    ):
        house.run(
            """INSERT INTO nottwice.audit (person_id, role, act, entity, entity_id, outcome)
               SELECT (SELECT min(id) FROM nottwice.people), 'support', :act, 'action', :id, 'done'""",
            act=act,
            id=send,
        )
    queue = app("review")
    queue.button_group[0].set_value("decided_today").run()
    assert "Decided today · 2" in str(queue.button_group[0].options)
    assert list(queue.dataframe[0].value["Did"]) == ["closed as sent", "agreed: send again with a new key"]


def test_who_may_not_decide_is_offered_to_look(app: App, house: House) -> None:
    """And is not sent to look for a subject that the page does not show."""
    send = house.uncertain(RECEIPT, mail("Ana <ana.ruiz@example.com>", "Receipt"), ago_s=600)
    queue = app("review", person=ENGINEER)
    labels = [button.label for button in queue.button]
    assert "Open the first" in labels and "Start with the first" not in labels
    assert list(queue.dataframe[0].value["To"]) == ["a•••@example.com"]
    told = " ".join(block.value for block in opened(app, send, ENGINEER).markdown)
    assert "look for mail to the address below" in told and "subject" not in told
    told = " ".join(block.value for block in opened(app, send, SUPPORT).markdown)
    assert "look for mail to the address and with the subject below" in told


def acting(house: House, name: str) -> Act:
    who = house.db.run(
        lambda tx: people.person(tx, "local", name, name, f"{name[:2]}@example.com", Role.SUPPORT)
    )
    return Act(who, uuid4(), "They called.", ("Only this page",))


def test_what_two_agreed_to_and_one_took_back_is_offered_to_nobody_alone_and_names_its_origin(
    app: App, house: House
) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    ana, bo = (acting(house, name) for name in ("Ana Soto", "Bo Lindqvist"))
    row = house.db.run(lambda tx: tx.one("SELECT version, content_digest FROM nottwice.actions"))
    seen = Seen(row.version, bytes(row.content_digest))
    asked = house.db.run(lambda tx: decisions.ask_new_key(tx, send, seen, ana))
    made = house.db.run(lambda tx: decisions.agree(tx, asked, seen, bo)).action_id
    back = replace(bo, form_id=uuid4())
    house.db.run(lambda tx: decisions.take_back(tx, made, back))
    at = opened(app, made, SUPPORT)
    assert "Send again with the same key" not in " ".join(map(str, at.radio[0].options))
    said = " ".join(caption.value for caption in at.caption)
    assert "A second person must agree anew." in said and "proof" not in said
    link = next(button for button in at.button if button.label.startswith("In place of"))
    assert link.label == f"In place of Send {send}, which nobody knows about"
    link.click().run()
    assert not at.exception and at.query_params["send"] == str(send)


def test_decided_today_turns_its_pages_by_25(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    opened(app, send, SUPPORT)
    house.run(
        """INSERT INTO nottwice.audit (person_id, role, act, entity, entity_id, outcome)
           SELECT (SELECT min(id) FROM nottwice.people), 'support', 'closed as sent', 'action', :id, 'done'
           FROM generate_series(1, 27)""",
        id=send,
    )
    queue = app("review")
    queue.button_group[0].set_value("decided_today").run()
    assert "Decided today · 27" in str(queue.button_group[0].options)
    assert len(queue.dataframe[0].value) == 25
    next(button for button in queue.button if button.label == "Next 25").click().run()
    assert not queue.exception, queue.exception
    assert len(queue.dataframe[0].value) == 2
