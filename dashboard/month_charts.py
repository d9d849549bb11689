"""The month of the Health page: how large the ledger is, and its oldest transaction. Ink lines: they are no states."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from dashboard.charts import CHART_PX, dress
from dashboard.colours import PAGES, Mode
from ledger.figures.samples import Sample

GB = 1e9
DASHES = {
    "All": ("bytes", "solid"),
    "Contents": ("event_contents_bytes", "dash"),
    "Events": ("events_bytes", "dot"),
    "Sends": ("sends_bytes", "dashdot"),
    "Record": ("record_bytes", "longdash"),
}


def sizes(month: Sequence[Sample], mode: Mode) -> go.Figure:
    """A line a kind of table, each told by its dashes and its name."""
    top = max((one.bytes for one in month), default=0)
    unit, length = ("GB", GB) if top >= GB else ("MB", GB / 1000)
    figure = go.Figure()
    for name, (column, dash) in DASHES.items():
        y = [round(getattr(one, column) / length, 3) for one in month]
        whole = column == "bytes"
        line = {
            "color": PAGES[mode].ink if whole else PAGES[mode].soft,
            "dash": dash,
            "width": 2 if whole else 1.5,
        }
        figure.add_scatter(
            x=_hours(month), y=y, name=name, mode="lines", line=line, hovertemplate=f"%{{y:,.2f}} {unit}"
        )
    _finish(figure, mode, unit)
    return figure.update_layout(showlegend=True, legend=LEGEND, margin={"t": 24})


def transactions(month: Sequence[Sample], limit_s: float, mode: Mode) -> go.Figure:
    """The longest of each hour, and the limit where it comes near."""
    seconds = [round(one.oldest_transaction_s, 1) for one in month]
    top = max(seconds, default=0.0)
    line = {"color": PAGES[mode].ink, "width": 2}
    figure = go.Figure(
        go.Scatter(
            x=_hours(month), y=seconds, mode="lines", line=line, name="Oldest", hovertemplate="%{y:,.0f} s"
        )
    )
    if top > limit_s / 2:
        figure.add_hline(y=limit_s, line={"color": PAGES[mode].soft, "width": 1.5, "dash": "dash"})
    _finish(figure, mode, "s")
    return figure.update_layout(showlegend=False)


LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"}


def _hours(month: Sequence[Sample]) -> list[object]:
    return [one.hour.replace(tzinfo=None) for one in month]  # Plotly drops the zone


def _finish(figure: go.Figure, mode: Mode, unit: str) -> None:
    dress(figure, CHART_PX, mode)
    figure.update_layout(hovermode="x unified")
    figure.update_xaxes(showgrid=False, tickformat="%-d %b", nticks=7)
    figure.update_yaxes(nticks=5, rangemode="tozero", ticksuffix=f" {unit}", tickformat=",")
