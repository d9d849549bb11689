"""One entry, in a drawer beside the list: before and after, what was known, what was looked at, and its seal."""

from __future__ import annotations

import streamlit as st

from dashboard import components, session
from dashboard.screens.audit_filters import ask_about, number
from dashboard.screens.audit_table import did, subject, when, who
from ledger.verdict import VerdictWord
from ledger.views import audit as views_audit
from ledger.views.audit import Entry

KNOWN = {
    VerdictWord.WAS_SENT: "It went out.",
    VerdictWord.WAS_NOT_SENT: "It did not go out.",
    VerdictWord.SAFE_TO_TRY_AGAIN: "Safe to try again with the same key.",
    VerdictWord.NOBODY_KNOWS: "Nobody knows whether it went out.",
}
PAGES = {
    "action": ("review", "send", "Open the send"),
    "event": ("events", "event", "Open the event"),
    "conflict": ("events", "conflict", "Open the conflict"),
    "quarantine": ("events", "quarantined", "Open what is in quarantine"),
    "together": ("review", "list", "Open the list"),
}


def open_asked() -> None:
    """The entry that the address names, if it names one."""
    asked = st.query_params.get_all("entry")
    if not asked:
        return
    wanted = number(asked[0]) if len(asked) == 1 else None
    person = session.me()
    entry = session.read(lambda tx: views_audit.entry(tx, person, wanted)) if wanted is not None else None
    if entry is None:
        _nothing()
    else:
        st.dialog(f"Entry {entry.id:,}", width="medium", position="right", on_dismiss=_close)(_draw)(entry)


def _close() -> None:
    st.query_params.pop("entry", None)


@st.dialog("No such entry", position="right", on_dismiss=_close)
def _nothing() -> None:
    st.markdown(components.NOTHING_HERE)


def _draw(entry: Entry) -> None:
    to = session.read(lambda tx: views_audit.recipients(tx, entry))
    components.mail_head(facts(entry, to))
    if entry.hash is None:
        st.caption("It waits for its seal, which a worker makes within a second.")
    else:
        st.caption(f"Sealed as number {entry.sequence:,} of the chain:")
        st.code(entry.hash.hex(), language=None, wrap_lines=True)
    with st.container(horizontal=True):
        _onwards(entry)


def facts(entry: Entry, to: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Everything the entry says, without what it does not say; and `to` whom its send goes, which it does not keep."""
    same = entry.state_after is not None and entry.state_after == entry.state_before
    ended = entry.outcome if entry.outcome == "done" else f"{entry.outcome}: {entry.detail}"
    return [
        ("When", f"{when(entry)}.{entry.at:%f} UTC"),
        ("Who", who(entry) if entry.person_id is None else f"{who(entry)}, {entry.role}"),
        ("Did", did(entry)),
        ("To what", subject(entry)),
        ("Recipient", ", ".join(to)),
        ("Outcome", ended),
        ("Before", _state(entry.state_before)),
        ("After", _state(entry.state_after) + (" (not changed)" if same else "")),
        ("Known", known_words(entry.known)),
        ("Looked at", ", ".join(entry.looked_at)),
        ("Why", entry.why),
        ("Detail", entry.detail if entry.outcome == "done" else ""),
    ]


def known_words(known: str) -> str:
    """A verdict in the words of the desk, with its reasons; whatever else was known, as it was written."""
    word, _, reasons = known.partition(": ")
    return f"{KNOWN[VerdictWord(word)]} {reasons}".rstrip() if word in KNOWN else known


def _state(state: str | None) -> str:
    return (state or "").replace("_", " ")


def _onwards(entry: Entry) -> None:
    page, name, label = PAGES.get(entry.entity, ("", "", ""))
    pages = st.session_state["pages"]
    if page in pages and st.button(label, icon=":material/open_in_new:"):
        st.switch_page(pages[page], query_params={name: str(entry.entity_id)})
    if entry.entity_id and st.button("All entries about it", icon=":material/filter_alt:"):
        _close()
        ask_about(entry.entity, entry.entity_id)
        st.rerun()
    ids: list[int] = st.session_state.get("audit_ids") or []
    older = [id_ for id_ in ids if id_ < entry.id]
    if older and st.button("The one before", icon=":material/arrow_downward:"):
        st.query_params["entry"] = str(older[0])
        st.rerun()
