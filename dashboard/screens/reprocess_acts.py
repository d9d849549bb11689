"""One step of a run in a person's name: agree, do not agree, stop. What became of it is said where the run is drawn next."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from dashboard import session
from ledger import reprocess
from ledger.database import Transaction
from ledger.records import Act
from ledger.views.reprocess import Run


def act_on(
    run: Run,
    what: str,
    do: Callable[[Transaction, int, Act], int],
    why: str = "",
    looked_at: tuple[str, ...] = (),
) -> session.Result:
    """Never raises for what the ledger says. The run itself, not a place in a list, is what is acted on."""
    form = session.form_id("reprocess", run.id, what)
    result = session.act(
        what,
        run.id,
        lambda tx, act: do(tx, run.id, act),
        form=form,
        why=why,
        looked_at=looked_at,
        entity="reprocess",
    )
    st.session_state["rerun_told"] = (run.id, result, 0)
    return result


def cancel(run: Run) -> None:
    """Stop it before its next row, or withdraw what was asked for."""
    act_on(run, "cancel a run", reprocess.cancel)
