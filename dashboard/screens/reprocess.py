"""Reprocess: what would run again, and who would get mail? The runs, one run, and a plan for another one.

An address only shows: `run` names a run, `plan` and `event` open a plan. Nothing is ever done because of one.
"""

from __future__ import annotations

import streamlit as st

from dashboard import session
from dashboard.components import NOTHING_HERE, too_slow
from dashboard.screens import reprocess_plan, reprocess_run, reprocess_runs
from ledger.errors import TooSlow
from ledger.views import reprocess as views_reprocess

DIGITS_MAX = 18  # of a bigint that is certainly one


def page() -> None:
    try:
        _draw()
    except TooSlow:
        too_slow()


def _draw() -> None:
    asked = st.query_params.get_all("run")
    if asked:
        _run(asked)
    elif "plan" in st.query_params or "event" in st.query_params:
        reprocess_plan.draw()
    else:
        reprocess_runs.draw()


def _run(asked: list[str]) -> None:
    text = asked[0]
    is_number = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    found = (
        session.read_soon(lambda tx: views_reprocess.run(tx, int(text)))
        if is_number and len(asked) == 1
        else None
    )
    if found is not None:
        reprocess_run.draw(found)
        return
    st.title(NOTHING_HERE, anchor=False)
    reprocess_runs.back()
