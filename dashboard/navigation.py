"""The pages of the navigation, and the way from one thing that is open back to its page's list.

A press on the page that is open changes nothing in Streamlit 1.67: the browser keeps the address with all that it names
(`sendRerunBackMsg` clears it for another page only). So while a page's address names something, its place in the navigation
is taken by its twin, another page to Streamlit, which leads to the page without any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import streamlit as st
from streamlit.navigation.page import StreamlitPage

TWIN = "-list"  # how a twin's address ends; style.css marks it as the page that is open


@dataclass(frozen=True, slots=True)
class Both:
    """A page, and its twin."""

    page: StreamlitPage
    twin: StreamlitPage


Build = Callable[
    [str], Mapping[str, Both]
]  # all by their names; one of them may be the page of which something is open


def both(
    draw: Callable[[], None],
    name: str,
    title: str,
    inside: str,
    *,
    icon: str | None = None,
    is_offered: bool = True,
) -> Both:
    """One place in the navigation, at the address of its name. Whoever may not read it is told so there, and is not offered it."""
    page = _page(draw, name, title, icon, is_offered and name != inside)

    def lead() -> None:
        st.switch_page(page)

    return Both(page, _page(lead, name + TWIN, title, icon, is_offered and name == inside))


def _page(
    draw: Callable[[], None], address: str, title: str, icon: str | None, is_offered: bool
) -> StreamlitPage:
    visibility: Literal["visible", "hidden"] = "visible" if is_offered else "hidden"
    return st.Page(draw, title=title, url_path=address, icon=icon, visibility=visibility)


def addresses(places: Mapping[str, Both]) -> list[str]:
    """Of all pages and their twins."""
    return [one.url_path for two in places.values() for one in (two.page, two.twin)]


def chosen(build: Build, home: StreamlitPage) -> StreamlitPage:
    """Draw the navigation; returns the page that was asked for, to be run.

    The pages are in the session's state by their names, for links from one to another.
    """
    asked = _drawn(build(""), home)
    if asked is not home and len(st.query_params):
        return _drawn(build(asked.url_path), home)  # which page it is, Streamlit says no earlier
    return asked


def _drawn(places: Mapping[str, Both], home: StreamlitPage) -> StreamlitPage:
    st.session_state["pages"] = {name: two.page for name, two in places.items()}
    return st.navigation(
        [home, *(one for two in places.values() for one in (two.page, two.twin))], position="top"
    )
