"""A list of rows that open: what the queue, the decisions, the events and the record share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig


def offer_first(label: str, name: str, first: int, *, mark: str = "") -> None:
    """For those who do not reach a row by hand: the table is a canvas, whose rows only Shift+Space picks."""
    if st.button(
        label,
        icon=":material/arrow_forward:",
        icon_position="right",
        type="tertiary",
        key=f"first_{mark or name}",
    ):
        st.query_params[name] = str(first)
        st.rerun()


def listed(
    name: str,
    frame: pd.DataFrame,
    ids: Sequence[int],
    columns: Mapping[str, ColumnConfig],
    *,
    mark: str = "",
    height: Literal["content", "auto"] = "content",
) -> None:
    """A row opens what has its id, never what stands at its place after a change.

    `name` is the address's word for it; `mark` tells lists apart that open the same kind of thing.
    """
    opened = st.session_state.get("opened", 0)
    key = f"{mark or name}_rows_{opened}_{hash(tuple(ids))}"

    def open_selected() -> None:
        chosen = st.session_state[key].selection.rows
        if chosen:
            st.session_state["opened"] = opened + 1
            st.query_params[name] = str(ids[chosen[0]])

    st.dataframe(
        frame,
        hide_index=True,
        on_select=open_selected,
        selection_mode="single-row",
        key=key,
        row_height=38,
        height=height,
        column_config=columns,
    )
