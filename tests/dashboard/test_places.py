"""What runs by itself on a page stands in one place, whatever is told above it: Streamlit drops a press in a part that moved."""

from __future__ import annotations

from typing import Any

from streamlit.testing.v1 import AppTest

from dashboard import session
from tests.dashboard.conftest import App
from tests.dashboard.test_review_cases import SUPPORT, opened
from tests.fix_seed import RECEIPT, House, mail


def place(at: AppTest, of: Any) -> list[int]:
    """The way from the page to an element: what Streamlit makes a part's own id of."""

    def way(node: Any, so_far: list[int]) -> list[int] | None:
        if node is of:
            return so_far
        children = getattr(node, "children", {})
        return next((found for n, child in children.items() if (found := way(child, [*so_far, n]))), None)

    found = way(at.main, [])
    assert found, "it is on the page"
    return found


def test_a_choice_stands_where_it_stood_when_an_answer_and_a_hint_come_above_it(
    app: App, house: House
) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    at = opened(app, send, SUPPORT)
    before = place(at, at.radio[0])
    at.session_state["last_result"] = (send, session.Refused("That number is another send's."))
    house.evidence(send, "Notice from inboxili", "It was delivered", "sent", proof=False, message_id="m-1")
    at.run()
    assert (
        not at.exception and at.warning and "It was this one: close as sent" in [b.label for b in at.button]
    )
    assert place(at, at.radio[0]) == before


def test_a_common_choice_stands_where_it_stood_when_an_answer_comes_above_it(app: App, house: House) -> None:
    sends = [house.uncertain(RECEIPT, mail(f"{n}@example.com", "Receipt"), ago_s=600) for n in range(5)]
    at = app("review", cause=str(sends[0]))
    before = place(at, at.radio[0])
    at.session_state["together_result"] = session.Refused("None of these can be decided like this.")
    at.run()
    assert not at.exception and at.warning and place(at, at.radio[0]) == before
