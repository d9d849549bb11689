"""What an address or a person's typing says, before anything is made of it: without letters that no ledger can keep.

The address is cleaned once, before any page reads it, so that no page has to think of it.
"""

from __future__ import annotations

import re

import streamlit as st

# NUL, which PostgreSQL's text cannot hold (its manual, 8.3), and the other controls but tab and the ends of lines.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def without_control(text: str) -> str:
    """The same text without control letters."""
    return CONTROL.sub("", text)


def clean() -> None:
    """The address as all pages read it, whatever parameters it has; the browser shows the clean one."""
    for name in list(st.query_params):
        said = st.query_params.get_all(name)
        kept = [without_control(value) for value in said]
        if kept != said:
            st.query_params[name] = kept
