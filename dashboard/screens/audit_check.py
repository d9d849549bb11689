"""Check the whole record now, with progress; the page then says what was found."""

from __future__ import annotations

from uuid import uuid4

import streamlit as st

from dashboard import components, session
from ledger.audit import check as audit_check
from ledger.audit import memory as audit_memory
from ledger.audit.memory import Verification
from ledger.database import Transaction
from ledger.records import Act
from ledger.views import audit as views_audit
from ledger.views.audit import Standing


def offer(stands: Standing) -> None:
    if stands.sealed and st.button("Check the record now", icon=":material/fact_check:"):
        _check()


def _check() -> None:
    with st.status("Checking the record, entry by entry", expanded=True):
        bar = st.progress(0.0)

        def told(done: int, of: int) -> None:
            bar.progress(done / of, text=f"{done:,} of {of:,} entries")

        found = audit_check.verify(session.read, told)
    result = session.act(
        audit_memory.CHECKED, 0, lambda tx, act: _record(tx, act, found), form=uuid4(), entity="audit"
    )
    if isinstance(result, session.Done):
        st.rerun()
    components.outcome(result)


def _record(tx: Transaction, act: Act, found: Verification) -> int:
    views_audit.must_check(act.person)
    return audit_memory.record(tx, found, act)
