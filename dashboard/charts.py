"""Plotly pictures in the state colours. Labels are our own words, worker names have no markup left."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from ledger.desk import LeaseAge, Minute

STATE = {
    "light": {
        "waiting": "#5C6975",
        "working": "#0B3C86",
        "done": "#2B978A",
        "person": "#C8781A",
        "broken": "#B8180C",
        "twin": "#9F6FEC",
        "line": "#E4E3DF",
        "soft": "#565E66",
        "ink": "#1E2328",
        "page": "#FFFFFF",
    },
    "dark": {
        "waiting": "#8F959F",
        "working": "#4A80E2",
        "done": "#A6F0CC",
        "person": "#FBA530",
        "broken": "#E23B2E",
        "twin": "#CAB5FE",
        "line": "#34312E",
        "soft": "#B5B1AA",
        "ink": "#ECEAE6",
        "page": "#171614",
    },
}
FONT = "Source Sans, sans-serif"
LATE = 2 / 3  # of a lease: from here it ages


def palette() -> dict[str, str]:
    return STATE["dark" if getattr(st.context.theme, "type", "light") == "dark" else "light"]


def bars(rows: Sequence[tuple[str, int, str]], key: str) -> None:
    """One horizontal bar a state, its number at the end."""
    c, upside_down = palette(), list(rows)[::-1]
    top = max((n for _, n, _ in rows), default=0) or 1
    figure = go.Figure(
        go.Bar(
            y=[name for name, _, _ in upside_down],
            x=[n for _, n, _ in upside_down],
            orientation="h",
            marker_color=[c[tone] for _, _, tone in upside_down],
            text=[f" {n:,}" for _, n, _ in upside_down],
            textposition="outside",
            cliponaxis=False,
            textfont={"color": c["ink"]},
            hoverinfo="skip",
        )
    )
    _dress(figure, 30 * len(rows), c)
    figure.update_xaxes(visible=False, range=[0, top * 1.4])
    figure.update_yaxes(showgrid=False, tickfont={"color": c["ink"]}, ticksuffix="  ")
    _show(figure, key, ", ".join(f"{name}: {n}" for name, n, _ in rows))


def deliveries(rows: Sequence[Minute], key: str) -> None:
    """New and duplicate deliveries a minute, and under them the share of duplicates."""
    c, x = palette(), [m.at.replace(tzinfo=None) for m in rows]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.66, 0.34], vertical_spacing=0.07)
    figure.add_bar(x=x, y=[m.new for m in rows], marker_color=c["waiting"], name="New", row=1, col=1)
    figure.add_bar(
        x=x, y=[m.duplicates for m in rows], marker_color=c["twin"], name="Duplicate", row=1, col=1
    )
    share = [100 * m.duplicates / (m.new + m.duplicates) if m.new + m.duplicates else None for m in rows]
    figure.add_scatter(
        x=x, y=share, mode="lines", line={"color": c["twin"], "width": 2}, connectgaps=True, name="Duplicates",
        hovertemplate="%{y:.0f} %", showlegend=False, row=2, col=1,
    )  # fmt: skip
    _dress(figure, 196, c)
    figure.update_layout(
        barmode="stack", hovermode="x unified", showlegend=True, bargap=0.15, margin={"t": 24},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    )  # fmt: skip
    figure.update_xaxes(showgrid=False, tickformat="%H:%M")
    figure.update_yaxes(nticks=4, rangemode="tozero")
    figure.update_yaxes(
        range=[0, 105], tickvals=[0, 50, 100], ticktext=["0 %", "50 %", "100 %"], row=2, col=1
    )
    _show(
        figure, key, "New and duplicate deliveries per minute over the last hour, and the share of duplicates"
    )


def lease_ages(rows: Sequence[LeaseAge], lease_s: float, key: str) -> None:
    """One mark a claim: how long ago, by which worker. Past the line another worker takes over."""
    c = palette()
    groups = {
        "fresh": ("circle", c["working"], [r for r in rows if r.age_s < LATE * lease_s]),
        "ageing": ("diamond", c["person"], [r for r in rows if LATE * lease_s <= r.age_s < lease_s]),
        "expired": ("x", c["broken"], [r for r in rows if r.age_s >= lease_s]),
    }
    figure = go.Figure()
    for name, (symbol, color, marks) in groups.items():
        figure.add_scatter(
            x=[r.age_s for r in marks], y=[_plain(r.worker) for r in marks], mode="markers", name=name,
            marker={"symbol": symbol, "color": color, "size": 10, "opacity": 0.9},
            hovertemplate="%{x:.1f} s<extra></extra>",
        )  # fmt: skip
    right = max(lease_s * 1.5, *(r.age_s * 1.1 for r in rows), 0) if rows else lease_s * 1.5
    figure.add_vrect(x0=lease_s, x1=right, fillcolor=c["broken"], opacity=0.08, line_width=0)
    figure.add_vline(x=lease_s, line={"color": c["broken"], "width": 1.5})
    _dress(figure, 196, c)
    figure.update_xaxes(range=[0, right], ticksuffix=" s")
    figure.update_yaxes(tickfont={"color": c["ink"]}, ticksuffix="  ", type="category")
    _show(
        figure, key, f"{len(rows)} claims by age; the oldest {max((r.age_s for r in rows), default=0):.0f} s"
    )


def _plain(text: str) -> str:
    """Plotly reads tags in labels."""
    return text.replace("<", "‹").replace(">", "›")


def _dress(figure: go.Figure, height: int, c: dict[str, str]) -> None:
    figure.update_layout(
        height=height, margin={"l": 4, "r": 4, "t": 4, "b": 4}, template="none", showlegend=False, bargap=0.3,
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", uirevision="keep",
        font={"family": FONT, "size": 13.5, "color": c["ink"]},
        hoverlabel={"bgcolor": c["page"], "bordercolor": c["line"], "font": {"color": c["ink"], "family": FONT}},
    )  # fmt: skip
    for axes in (figure.update_xaxes, figure.update_yaxes):
        axes(
            gridcolor=c["line"],
            zeroline=False,
            tickfont={"color": c["soft"]},
            automargin=True,
            fixedrange=True,
        )


def _show(figure: go.Figure, key: str, alt: str) -> None:
    st.plotly_chart(figure, config={"displayModeBar": False}, key=key, alt=alt, theme=None)
