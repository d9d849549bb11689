"""What a second person sees and does, and where each of the two goes from there."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.dashboard.conftest import App
from tests.dashboard.test_review_cases import ADMIN, SUPPORT, opened, pages
from tests.fix_seed import RECEIPT, House, mail

HINT = "A message to this address was delivered"


def uncertain(house: House, *names: str) -> list[int]:
    return [house.uncertain(RECEIPT, mail(f"{name}@example.com", "Receipt"), ago_s=600) for name in names]


def press(at: AppTest, label: str) -> int:
    """Returns the send that is open then."""
    next(button for button in at.button if button.label == label).click().run()
    assert not at.exception, at.exception
    return int(at.query_params["send"][0])


def answer(at: AppTest, label: str) -> int:
    next(pills for pills in at.button_group if "look at" in pills.label).set_value(["Only this page"])
    next(box for box in at.text_input if "Why?" in box.label).set_value("They called")
    return press(at, label)


def ask(at: AppTest) -> int:
    at.radio[0].set_value(next(one for one in at.radio[0].options if "new key" in one)).run()
    return answer(at, "Ask a second person to agree")


def said(at: AppTest) -> str:
    return " ".join(block.value for block in at.markdown)


def test_two_people_go_each_from_request_to_request_and_what_came_since_is_shown_and_agreed_to(
    app: App, house: House
) -> None:
    first, second, third = uncertain(house, "a", "b", "c")
    ana = opened(app, first, SUPPORT)
    assert ask(ana) == first and "Nothing has gone out." in said(ana) and "New since" not in said(ana)
    assert press(ana, "Open the next one") == second and ask(ana) == second
    assert press(ana, "Open the next one") == third, "not what this person asks about"
    bo = opened(app, first, ADMIN)
    assert "New since" not in said(bo)
    house.evidence(first, "Notice from inboxili", HINT, "sent", proof=False)
    assert answer(bo, "Agree, send it") == first, "what was pressed is not what is there"
    assert "New since Ana Soto asked at" in said(bo) and pages(bo).count(HINT) == 2
    made = answer(bo, "Agree, send it")
    assert made not in (first, second, third), "the one that goes out instead"
    assert press(bo, "Open the next one") == second, "the next request, not the next uncertain send"
    press(bo, "Do not agree")
    assert "What should happen?" in str(bo.radio[0].label)


def test_ready_words_say_what_was_looked_at_and_why_and_own_ones_go_with_them(app: App, house: House) -> None:
    """All that a decision takes is one press for what was found, and one for the decision."""
    (send,) = uncertain(house, "a")
    ana = opened(app, send, SUPPORT)
    ana.radio[0].set_value(next(one for one in ana.radio[0].options if "new key" in one)).run()
    ana.button_group[0].set_value("It is not in the provider's log")
    press(ana, "Ask a second person to agree")
    bo = opened(app, send, ADMIN)
    bo.button_group[0].set_value("The customer did not get it")
    next(box for box in bo.text_input if "Why?" in box.label).set_value("They called at nine.")
    press(bo, "Agree, send it")
    asked, agreed, *_ = house.db.run(
        lambda tx: tx.all("SELECT why, looked_at FROM nottwice.audit WHERE looked_at <> '{}' ORDER BY id")
    )
    assert (asked.why, asked.looked_at) == ("It is not in the provider's log.", ["Provider's own log"])
    assert agreed.why == "The customer did not get it. They called at nine."
    assert agreed.looked_at == ["Customer told us"]


def test_ready_words_about_a_hint_say_that_the_log_was_looked_at_too(app: App, house: House) -> None:
    (send,) = uncertain(house, "a")
    house.evidence(send, "Notice from inboxili", HINT, "sent", message_id="m-1")
    ana = opened(app, send, SUPPORT)
    ana.button_group[0].set_value("The provider's log has this number, with this subject")
    press(ana, "It was this one: close as sent")
    looked = house.db.run(
        lambda tx: tx.one("SELECT looked_at FROM nottwice.audit WHERE act = 'closed as sent'")
    )
    assert looked.looked_at == ["A hint on this page", "Provider's own log"]


def test_what_is_open_leaves_room_in_the_navigation_for_the_way_back_to_its_list(
    app: App, house: House
) -> None:
    """A press on the page that is open changes nothing in Streamlit, so its twin is offered."""
    (send,) = uncertain(house, "a")
    inside = opened(app, send, SUPPORT).session_state["pages"]
    assert [name for name, page in inside.items() if page.visibility == "hidden"] == ["review"]
    outside = app("review").session_state["pages"]
    assert not [name for name, page in outside.items() if page.visibility == "hidden"]
    back = app("review-list", send=str(send))
    assert not back.exception and back.title[0].value.startswith("1 send waits for a decision.")
    assert not back.query_params


def test_back_at_the_list_the_part_is_shown_that_one_came_from(app: App, house: House) -> None:
    (send,) = uncertain(house, "a")
    ask(opened(app, send, SUPPORT))
    bo = opened(app, send, ADMIN)
    next(button for button in bo.button if button.label == "All 1 waiting").click().run()
    assert not bo.exception and not bo.warning
    assert bo.button_group[0].value == "second_person" and len(bo.dataframe[0].value) == 1


def test_who_asked_a_second_person_is_not_told_of_as_still_deciding(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    ana = opened(app, send, SUPPORT)
    ana.radio[0].set_value(ana.radio[0].options[0]).run()
    captions = [one.value for one in opened(app, send, ADMIN).caption]
    assert any("Ana Soto is deciding this since" in one for one in captions)
    ask(ana)
    bo = opened(app, send, ADMIN)
    captions = [one.value for one in bo.caption]
    assert ":material/visibility: Ana Soto has this open too." in captions, captions
    assert "asks you to agree" in " ".join(one.value for one in bo.markdown)


def test_whoever_acts_as_the_other_person_sees_the_page_from_its_top(app: App, house: House) -> None:
    """The way there is at its foot."""
    (send,) = uncertain(house, "a")
    at = opened(app, send, SUPPORT)
    assert 'data-nt-opened="0"' in pages(at)
    at.button(key="act_as_1").click().run()
    assert not at.exception and 'data-nt-opened="1"' in pages(at)
    assert at.session_state["person"] == ADMIN
