"""Charts that many watch are made once."""

from __future__ import annotations

from dashboard import charts
from dashboard.charts import Bar

ROWS: list[Bar] = [("Waiting", 1200, "waiting"), ("In hand", 3, "working")]


def test_bars_of_the_same_figures_are_made_once_and_others_are_their_own() -> None:
    first = charts.bars(ROWS, "light")
    assert charts.bars(list(ROWS), "light") is first
    assert list(first.data[0].x) == [3, 1200] and list(first.data[0].text) == [" 3", " 1,200"]
    assert charts.bars(ROWS, "dark") is not first
    fewer = charts.bars([("Waiting", 1199, "waiting"), ROWS[1]], "light")
    assert list(fewer.data[0].x) == [3, 1199] and list(first.data[0].x) == [3, 1200]
