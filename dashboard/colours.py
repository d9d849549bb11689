"""Colour means state and nothing else. One table for charts, table pills and tests; `style.css` and the theme in
`.streamlit/config.toml` say the same colours to the browser, which a test compares with this table.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Mode = Literal["light", "dark"]
State = Literal["waiting", "working", "done", "person", "broken", "twin"]


class Shade(NamedTuple):
    """Of one state in one mode: shapes, words on the tint, and the tint."""

    fill: str
    text: str
    tint: str


class Page(NamedTuple):
    """What is not state."""

    page: str
    ink: str
    soft: str
    line: str
    edge: str


SHADES: Final[dict[Mode, dict[State, Shade]]] = {
    "light": {
        "waiting": Shade("#5C6975", "#46525C", "#EEF1F3"),
        "working": Shade("#0B3C86", "#0B3C86", "#E8F0FB"),
        "done": Shade("#2B978A", "#0B6157", "#E4F4F1"),
        "person": Shade("#C8781A", "#7D4600", "#FFF2DE"),
        "broken": Shade("#B8180C", "#9C140A", "#FCEBE9"),
        "twin": Shade("#9F6FEC", "#6234B0", "#F3EDFD"),
    },
    "dark": {
        "waiting": Shade("#8F959F", "#BCC1C9", "#2B2D31"),
        "working": Shade("#4A80E2", "#9BBCF5", "#14233F"),
        "done": Shade("#A6F0CC", "#A6F0CC", "#12352A"),
        "person": Shade("#FBA530", "#FBC06B", "#3A2708"),
        "broken": Shade("#E23B2E", "#FF9A90", "#431613"),
        "twin": Shade("#CAB5FE", "#CAB5FE", "#2C2244"),
    },
}
# In tables a pill's words are ink, so its ground may be stronger.
PILLS: Final[dict[Mode, dict[State, str]]] = {
    "light": {
        "waiting": "#E3E8EC",
        "working": "#D9E6F8",
        "done": "#D3EDE8",
        "person": "#FCE3BF",
        "broken": "#FADAD6",
        "twin": "#E6DBFB",
    },
    "dark": {
        "waiting": "#3A3D42",
        "working": "#1F3866",
        "done": "#1B4D3D",
        "person": "#573A0C",
        "broken": "#6B221C",
        "twin": "#463A70",
    },
}
PAGES: Final[dict[Mode, Page]] = {
    "light": Page("#FFFFFF", "#1E2328", "#565E66", "#DAD9D5", "#8A8984"),
    "dark": Page("#171614", "#ECEAE6", "#B5B1AA", "#3D3A36", "#7C7974"),
}
# Streamlit's names for the six, in its theme and in `st.metric`.
THEME_NAMES: Final[dict[State, str]] = {
    "waiting": "gray",
    "working": "blue",
    "done": "green",
    "person": "orange",
    "broken": "red",
    "twin": "violet",
}
