"""What was revealed is hidden when its page is left, and in which zone a page's times are."""

from __future__ import annotations

import pytest
from streamlit.runtime.context import ContextProxy

from dashboard import components
from tests.dashboard.conftest import App
from tests.dashboard.test_review_cases import SUPPORT, opened
from tests.fix_seed import RECEIPT, House, mail


def test_a_text_that_was_read_is_hidden_when_its_send_is_left(app: App, house: House) -> None:
    """Else one entry in the audit would stand for as many looks as somebody takes."""
    first, second = (
        house.uncertain(RECEIPT, mail("ana@example.com", f"Receipt {n}", text=f"The text {n}."), ago_s=600)
        for n in (1, 2)
    )
    at = opened(app, first, SUPPORT)
    at.button(key=f"show_{first}").click().run()
    assert [one.value for one in at.text] == ["The text 1."]
    at.radio[0].set_value(at.radio[0].options[0]).run()
    assert [one.value for one in at.text] == ["The text 1."], "it stays while its send is decided"
    for send in (second, first):
        at.query_params["send"] = str(send)
        at.run()
        assert not at.exception and not at.text and at.button(key=f"show_{send}")
    looks = "SELECT count(*) AS n FROM nottwice.audit WHERE act = 'reveal' AND entity_id = :id"
    assert house.db.run(lambda tx: tx.one(looks, id=first)).n == 1


@pytest.mark.parametrize(
    ("offset", "told"),
    [
        (None, "times in UTC"),
        (0, "times in UTC"),
        (-60, "times in UTC, yours is 1:00 h ahead"),
        (210, "times in UTC, yours is 3:30 h behind"),
    ],
)
def test_how_far_the_viewers_clock_is_from_a_pages_times_stands_beside_them(
    monkeypatch: pytest.MonkeyPatch, offset: int | None, told: str
) -> None:
    monkeypatch.setattr(ContextProxy, "timezone_offset", property(lambda self: offset))
    assert components.zone() == told
