"""Hand the record out as a file: the range, how many entries that is, and only then the file, itself recorded."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from uuid import UUID, uuid4

import streamlit as st

from dashboard import components, session
from dashboard.words import many
from ledger.audit import export as audit_export
from ledger.audit.choice import ALL, Chosen
from ledger.audit.export import Exported, Form
from ledger.database import Transaction
from ledger.records import Act
from ledger.views import audit as views_audit

ENTRIES_MAX = 100_000  # a file of some 40 MB, in the memory of the console for a while
FORMS: dict[Form, str] = {"csv": "For a spreadsheet (CSV)", "jsonl": "For a program (JSON lines)"}
MIMES: dict[Form, str] = {"csv": "text/csv", "jsonl": "application/jsonl"}
# A spreadsheet takes a file for UTF-8 when it begins with a byte order mark.
ENCODINGS: dict[Form, str] = {"csv": "utf-8-sig", "jsonl": "utf-8"}


def offer(chosen: Chosen) -> None:
    if st.button("Export…", icon=":material/download:"):
        st.session_state["audit_opened"] = uuid4()
        _dialog(chosen)


@dataclass(frozen=True, slots=True)
class File:
    """What was handed out, kept for as long as its dialog is open: a second press is no second export."""

    form_id: UUID
    made: Exported
    content: bytes


@st.dialog("Export the record", width="medium")
def _dialog(asked: Chosen) -> None:
    chosen = _range(asked)
    form: Form = st.radio("As", list(FORMS), format_func=lambda one: FORMS[one], horizontal=True)
    form_id = session.form_id(st.session_state["audit_opened"], chosen, form)
    n = session.read(lambda tx: views_audit.count(tx, chosen, most=ENTRIES_MAX))
    st.caption("The export is itself recorded. Cells are made safe for spreadsheets.")
    if _file(form_id) is None and _pressed(n):
        _export(chosen, form, form_id)
    file = _file(form_id)
    if file is not None:
        _save(file, form)


def _file(form_id: UUID) -> File | None:
    kept: File | None = st.session_state.get("audit_file")
    return kept if kept is not None and kept.form_id == form_id else None


def _pressed(n: int) -> bool:
    if n > ENTRIES_MAX:
        st.markdown(
            f"**More than {ENTRIES_MAX:,} entries.** Choose a shorter time, or use `nottwice audit export`."
        )
    elif not n:
        st.markdown("**Nothing in the record fits.** Choose other days.")
    return 0 < n <= ENTRIES_MAX and st.button(f"Export {many(n, 'entry', 'entries')}", type="primary")


def _range(asked: Chosen) -> Chosen:
    first, last = st.columns(2)
    since = first.date_input("From", asked.since and asked.since.date(), format="YYYY-MM-DD")
    until = last.date_input(
        "To, that day included", asked.until and (asked.until - timedelta(days=1)).date(), format="YYYY-MM-DD"
    )
    others = replace(asked, since=None, until=None)
    if others != ALL:
        st.caption("Only what the page was asked for: who, what, to what and outcome as chosen there.")
    return replace(
        asked,
        since=since and datetime.combine(since, time(), UTC),
        until=until and datetime.combine(until, time(), UTC) + timedelta(days=1),
    )


def _export(chosen: Chosen, form: Form, form_id: UUID) -> None:
    out = io.StringIO(newline="")

    def do(tx: Transaction, act: Act) -> Exported:
        out.seek(0)
        out.truncate()
        return audit_export.export(tx, act, chosen, form, out, entries_max=ENTRIES_MAX)

    result = session.act(audit_export.EXPORTED, 0, do, form=form_id, entity="audit")
    if isinstance(result, session.Done) and isinstance(result.value, Exported):
        content = out.getvalue().encode(ENCODINGS[form])
        st.session_state["audit_file"] = File(form_id, result.value, content)
    else:
        components.outcome(result)


def _save(file: File, form: Form) -> None:
    st.success(
        f"Recorded as entry {file.made.audit_id:,}: {many(file.made.entries, 'entry', 'entries')} handed to you.",
        icon=":material/check_circle:",
    )
    st.download_button(
        "Save the file",
        data=file.content,
        file_name=f"audit-as-of-entry-{file.made.audit_id}.{'csv' if form == 'csv' else 'jsonl'}",
        mime=MIMES[form],
        on_click="ignore",
        type="primary",
        icon=":material/save:",
    )
