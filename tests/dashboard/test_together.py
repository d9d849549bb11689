"""Many sends with one cause, as people meet them: the line above the queue, all of them, one word, and what became of each."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from dashboard import session
from tests.dashboard.conftest import App
from tests.fix_seed import RECEIPT, REFUND, House, KindRules, mail

BO, ENGINEER = 1, 2


def shared(house: House, n: int, kind: KindRules = RECEIPT) -> list[int]:
    """Begun in the middle of one quarter of an hour, so that no test begins in two."""
    ids = [
        house.uncertain(kind, mail(f"p{i}@example.com", f"Receipt {i}"), about=f"INV-{i}") for i in range(n)
    ]
    house.run(
        """UPDATE nottwice.actions SET first_started_at = nottwice.quarter_of_an_hour(now()) - interval '8 min'
           WHERE state = 'needs_review'"""
    )
    house.run("UPDATE nottwice.actions SET evidence_until = now() WHERE state = 'needs_review'")
    return ids


def pressed(at: AppTest, label: str) -> AppTest:
    next(button for button in at.button if button.label.startswith(label)).click().run()
    assert not at.exception, at.exception
    return at


def chosen(at: AppTest, choice: str, why: str = "Their log is empty for that time") -> AppTest:
    at.radio[0].set_value(next(o for o in at.radio[0].options if choice in str(o))).run()
    at.button_group[0].set_value(["Provider's own log"])
    next(box for box in at.text_input if str(box.key).startswith("together_why")).set_value(why)
    return at


def states(house: House) -> list[str]:
    return [
        row.state for row in house.db.run(lambda tx: tx.all("SELECT state FROM nottwice.actions ORDER BY id"))
    ]


def acts(house: House) -> list[tuple[str, str, int]]:
    sql = "SELECT act, outcome, count(*) AS n FROM nottwice.audit GROUP BY 1, 2 ORDER BY min(id)"
    return [tuple(row) for row in house.db.run(lambda tx: tx.all(sql))]


def test_five_that_share_a_cause_can_be_decided_together_and_four_cannot(app: App, house: House) -> None:
    shared(house, 4)
    at = app("review")
    assert not [button for button in at.button if button.label == "Decide these together"]
    shared(house, 1)
    at = pressed(app("review"), "Decide these together")
    assert at.title[0].value == "5 sends share one cause."
    assert sorted(at.dataframe[0].value["To"]) == [f"p{i}@example.com" for i in (0, 0, 1, 2, 3)]
    assert [str(o) for o in at.radio[0].options] == ["**Do not send** · 5"]
    assert any("never given to many at once" in caption.value for caption in at.caption)


def test_many_are_closed_by_one_press_and_what_may_have_gone_out_is_not_among_them(
    app: App, house: House
) -> None:
    ids = shared(house, 6)
    house.evidence(ids[2], "Notice from inboxili", "A message near in time", "sent", message_id="<m-1@x>")
    at = app("review", cause=str(ids[0]))
    assert not at.exception, at.exception
    assert [str(o) for o in at.radio[0].options] == ["**It was sent** · 1", "**Do not send** · 5"]
    at.radio[0].set_value(at.radio[0].options[1]).run()
    at = pressed(at, "Close 5 as not sent")
    assert [w.value for w in at.warning] == ["Nothing was done. Please say what you looked at and why."]
    at = pressed(chosen(at, "Do not send"), "Close 5 as not sent")
    assert at.title[0].value == "5 sends closed as not sent."
    assert list(at.dataframe[0].value["Became"]) == ["closed"] * 5
    assert states(house) == ["closed"] * 2 + ["needs_review"] + ["closed"] * 3
    assert acts(house) == [
        ("closed without sending, together", "done", 1),
        ("closed without sending", "done", 5),
    ]
    again = app("review", list=at.query_params["list"][0])
    assert again.title[0].value == at.title[0].value, "a reload says the same"


def test_sends_that_share_a_message_are_no_common_word_and_the_rows_say_so(app: App, house: House) -> None:
    ids = shared(house, 5)
    for id_ in ids:
        for number in ("<m-1@x>", "<m-2@x>"):
            house.evidence(id_, "Notice from inboxili", "A message near in time", "sent", message_id=number)
    queue = app("review")
    assert not [button for button in queue.button if button.label == "Decide these together"]
    words = "5 sends, 2 messages: decide these one by one."
    assert any(words in block.value for block in queue.markdown)
    at = pressed(queue, "Look at these")
    assert set(at.dataframe[0].value["Rests on"]) == {"2 messages, shared with 4 other sends"}
    assert any(words in caption.value for caption in at.caption)
    assert not at.radio


def test_one_of_a_list_opens_without_a_mouse_and_leads_back(app: App, house: House) -> None:
    ids = shared(house, 5)
    at = pressed(app("review", cause=str(ids[2])), "Open the first")
    assert str(ids[0]) in at.query_params["send"]
    at = pressed(at, "Back to the list")
    assert at.title[0].value == "5 sends share one cause."


def test_the_same_key_asks_once_more_before_anything_is_done(app: App, house: House) -> None:
    ids = shared(house, 5, REFUND)
    at = app("review", cause=str(ids[0]))
    pressed(chosen(at, "same key"), "Send 5 again with the same key, 2 a second")
    assert any("the last in 17 s" in block.value for block in at.markdown)
    assert states(house) == ["needs_review"] * 5


def test_above_the_number_of_an_hour_a_second_person_agrees_and_sees_the_first_ones_reason_last(
    app: App, house: House
) -> None:
    ids = shared(house, 5)
    app("review")
    kept = session.house()
    console = kept.settings.console.model_copy(update={"second_person_above": 4})
    kept.settings = kept.settings.model_copy(update={"console": console})
    at = chosen(app("review", cause=str(ids[0])), "Do not send")
    at = pressed(at, "Ask a second person about 5")
    assert at.title[0].value == "A second person is asked to close 5 sends as not sent."
    assert not [button for button in at.button if button.label.startswith("Agree")]
    assert states(house) == ["needs_review"] * 5
    queue = app("review", person=BO)
    assert any("Ana Soto asks a second person to agree" in block.value for block in queue.markdown)
    assert not [button for button in queue.button if button.label == "Decide these together"]
    bo = pressed(queue, "Look at these")
    bo.button_group[0].set_value(["Our own records"])
    next(box for box in bo.text_input if str(box.key).startswith("list_why")).set_value("I looked too")
    bo = pressed(bo, "Agree about 5")
    assert bo.title[0].value == "5 sends closed as not sent."
    assert states(house) == ["closed"] * 5


def test_who_may_not_decide_sees_them_masked_and_no_buttons(app: App, house: House) -> None:
    ids = shared(house, 5)
    at = app("review", person=ENGINEER, cause=str(ids[0]))
    assert at.dataframe[0].value["To"][0] == "p•••@example.com"
    assert not at.radio
    assert any("Support or admin decides" in caption.value for caption in at.caption)
