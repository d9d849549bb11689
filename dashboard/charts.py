"""Pictures in the colours of state. Numbers, our own words and names of workers; links do the going, not charts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from dashboard.colours import PAGES, SHADES, Mode, State
from dashboard.words import named
from ledger.views import LeaseAge, Minute

FONT = "Source Sans, sans-serif"
BARS_PX, CHART_PX = 118, 196
FIGURES_FIRST_S = 0.5
TICKS_MAX = 6
AGEING = 2 / 3  # of a lease: it should have been renewed by then
SYMBOLS: dict[State, str] = {"working": "circle", "person": "diamond", "broken": "x"}
Bar = tuple[str, int, State]


def bars(rows: Sequence[Bar], mode: Mode) -> go.Figure:
    """One horizontal bar a state, its number at the end, no axis. Not to be changed: all who watch are given the same one."""
    return _bars(tuple(rows), mode)


@lru_cache(maxsize=64)
def _bars(rows: tuple[Bar, ...], mode: Mode) -> go.Figure:
    """Plotly looks up every word of a figure that it makes: a quarter of what watching pages cost, made anew at each tick."""
    upwards, top = list(rows)[::-1], max((n for _, n, _ in rows), default=0) or 1
    ink = PAGES[mode].ink
    figure = go.Figure(
        go.Bar(
            y=[name for name, _, _ in upwards],
            x=[n for _, n, _ in upwards],
            orientation="h",
            marker_color=[SHADES[mode][state].fill for _, _, state in upwards],
            text=[f" {n:,}" for _, n, _ in upwards],
            textposition="outside",
            constraintext="none",  # else five rows are written smaller than four
            cliponaxis=False,
            textfont={"color": ink},
            hoverinfo="skip",
        )
    )
    dress(figure, BARS_PX, mode)
    figure.update_xaxes(visible=False, range=[0, top * (1.38 if top < 1000 else 1.6)])
    return figure.update_yaxes(showgrid=False, tickfont={"color": ink}, ticksuffix="  ")


def deliveries(minutes: Sequence[Minute], mode: Mode) -> go.Figure:
    """New and duplicate deliveries a minute, and under them, on the same time axis, the share of duplicates."""
    twin, x = SHADES[mode]["twin"].fill, [m.at.replace(tzinfo=None) for m in minutes]  # Plotly drops the zone
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.66, 0.34], vertical_spacing=0.07)
    new = {"y": [m.new for m in minutes], "marker_color": SHADES[mode]["waiting"].fill, "name": "New"}
    again = {"y": [m.duplicates for m in minutes], "marker_color": twin, "name": "Duplicate"}
    for series in (new, again):
        figure.add_bar(x=x, row=1, col=1, **series)
    line = {
        "mode": "lines",
        "line": {"color": twin, "width": 2},
        "showlegend": False,
        "name": "Duplicates, %",
    }
    figure.add_scatter(x=x, y=[_share(m) for m in minutes], hovertemplate="%{y:.0f} %", row=2, col=1, **line)
    dress(figure, CHART_PX, mode)
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
    figure.update_layout(barmode="stack", hovermode="x unified", showlegend=True, legend=legend, bargap=0.15)
    figure.update_layout(margin={"t": 24})
    figure.update_xaxes(showgrid=False, tickformat="%H:%M")
    figure.update_yaxes(nticks=4, rangemode="tozero")
    top = 50 if max((_share(m) or 0 for m in minutes), default=0) <= 50 else 100
    ticks = {"tickvals": [0, top / 2, top], "ticktext": ["0 %", f"{top / 2:.0f} %", f"{top} %"]}
    return figure.update_yaxes(range=[0, top * 1.1], row=2, col=1, **ticks)


def _share(minute: Minute) -> float | None:
    total = minute.new + minute.duplicates
    return 100 * minute.duplicates / total if total else None


def lease_ages(leases: Sequence[LeaseAge], lease_s: float, mode: Mode) -> go.Figure:
    """One mark a lease: its age, by worker. Past the red line another worker takes over."""
    shades, page = SHADES[mode], PAGES[mode]
    states = [age_state(lease.age_s, lease_s) for lease in leases]
    marker = {
        "size": 11,
        "opacity": 0.9,
        "line": {"color": page.page, "width": 1.5},
        "color": [shades[state].fill for state in states],
        "symbol": [SYMBOLS[state] for state in states],
    }
    figure = go.Figure(
        go.Scatter(
            x=[round(lease.age_s, 1) for lease in leases],
            y=[named(lease.worker) for lease in leases],
            mode="markers",
            marker=marker,
            hovertemplate="%{y}: no sign for %{x} s<extra></extra>",
        )
    )
    dress(figure, CHART_PX, mode)
    right = max([lease_s * 1.5, *(lease.age_s * 1.08 for lease in leases)])
    figure.add_vrect(x0=lease_s, x1=right, fillcolor=shades["broken"].fill, opacity=0.08, line_width=0)
    figure.add_vline(x=lease_s, line={"color": shades["broken"].fill, "width": 1.5})
    figure.add_annotation(
        x=lease_s + right * 0.02,
        y=0.02,
        yref="paper",
        yanchor="bottom",
        xanchor="left",
        text=f"past {lease_s:g} s",
        showarrow=False,
        font={"color": page.soft, "size": 12.5},
    )
    step = lease_s / 3
    while right / step > TICKS_MAX:
        step *= 2
    ticks = [step * n for n in range(int(right / step) + 1)]
    figure.update_xaxes(range=[0, right], tickvals=ticks, ticktext=[f"{tick:.0f} s" for tick in ticks])
    return figure.update_yaxes(tickfont={"color": page.ink}, ticksuffix="  ", type="category")


def age_state(age_s: float, lease_s: float) -> State:
    if age_s > lease_s:
        return "broken"
    return "person" if age_s >= AGEING * lease_s else "working"


def dress(figure: go.Figure, height: int, mode: Mode) -> None:
    page = PAGES[mode]
    font = {"family": FONT, "size": 13.5, "color": page.ink}
    figure.update_layout(
        height=height,
        margin={"l": 4, "r": 4, "t": 4, "b": 4},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        template="none",
        font=font,
        showlegend=False,
        bargap=0.3,
        uirevision="keep",
        hoverlabel={
            "bgcolor": page.page,
            "bordercolor": page.line,
            "font": {"color": page.ink, "family": FONT},
        },
    )
    axis = {"gridcolor": page.line, "zeroline": False, "tickfont": {"color": page.soft}, "automargin": True}
    figure.update_xaxes(fixedrange=True, **axis)
    figure.update_yaxes(fixedrange=True, **axis)


def soon() -> None:
    """Have this page drawn again with its charts, once its figures are on the way.

    Plotly is 4.7 MB of code, which a browser that is new here fetches at the first chart it is told of. The figures
    of the page would wait behind it for half a second and more.
    """
    if not st.session_state.get("draws_charts"):
        st.fragment(_now, run_every=FIGURES_FIRST_S)()


def _now() -> None:
    """The first run belongs to the page; the second is the browser's, when it has got what the page said."""
    if st.session_state.get("figures_first"):
        st.session_state["draws_charts"] = True
        st.rerun()
    st.session_state["figures_first"] = True


def draw(figure: go.Figure, key: str, alt: str) -> None:
    """The chart, or until `soon` has come its place, so that nothing moves when it does."""
    if not st.session_state.get("draws_charts"):
        st.space(int(figure.layout.height))
        return
    st.plotly_chart(figure, config={"displayModeBar": False}, key=key, alt=alt, theme=None)
