"""Pages of a list: back, and on from the place where the page before ended. What a place is, each list knows.

`of` names the list; where each of its pages ended is this session's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import streamlit as st

ROWS = 25
Onwards = Literal["next", "back in time", "sends"]


def place(of: str) -> Any:
    """Behind which the page begins that this session is at; None: at the first."""
    return (_places(of) or [None])[-1]


def start(of: str) -> None:
    """The first page again."""
    st.session_state.pop(f"{of}_places", None)


def foot(of: str, onwards: Any, way: Onwards = "next", *, turned: Callable[[], None] | None = None) -> None:
    """Back and on, in a row of their own where there is either. `onwards` is where this page ends; None: nothing follows."""
    if _places(of) or onwards is not None:
        with st.container(horizontal=True):
            buttons(of, onwards, way, turned=turned)


def buttons(
    of: str, onwards: Any, way: Onwards = "next", *, turned: Callable[[], None] | None = None
) -> None:
    """The two by themselves; `turned` is called when one was pressed, before the page is drawn anew."""
    places, more = _places(of), " sends" if way == "sends" else ""
    if places:
        st.button(
            f"Previous {ROWS}{more}",
            icon=":material/chevron_left:",
            key=f"{of}_back",
            on_click=_turn,
            args=(of, places[:-1], turned),
        )
    if onwards is not None:
        st.button(
            "Look further back" if way == "back in time" else f"Next {ROWS}{more}",
            icon=":material/chevron_right:",
            icon_position="right",
            key=f"{of}_on",
            on_click=_turn,
            args=(of, [*places, onwards], turned),
        )


def _places(of: str) -> list[Any]:
    found: list[Any] = st.session_state.get(f"{of}_places") or []
    return found


def _turn(of: str, places: list[Any], turned: Callable[[], None] | None) -> None:
    st.session_state[f"{of}_places"] = places
    if turned is not None:
        turned()
