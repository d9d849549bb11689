"""A notice where a provider has switched off what brings us events, or does not say whether it has."""

from __future__ import annotations

import streamlit as st

from dashboard.components import told
from dashboard.words import many, named, span
from ledger.views import Snapshot

NAMED_MAX = 5


def notices(now: Snapshot | None) -> None:
    """Nothing while every endpoint is known to be on."""
    if now is None:
        return
    if now.endpoints_off:
        if any(off.alone for off in now.endpoints_off):  # as nottwice check has it
            st.error(_off(now), icon=":material/link_off:")
        else:
            st.warning(_off(now), icon=":material/link_off:")
        for off in now.endpoints_off[:NAMED_MAX]:
            told(f"{named(off.label)}'s endpoint", f"{off.endpoint_id}, {off.url}")
    if now.endpoints_unknown:
        st.info(_unknown(now), icon=":material/question_mark:")


def off_words(now: Snapshot) -> str:
    """For a heading: `1 webhook endpoint is off`."""
    return many(len(now.endpoints_off), "webhook endpoint is off", "webhook endpoints are off")


def _off(now: Snapshot) -> str:
    first, n = now.endpoints_off[0], len(now.endpoints_off)
    who, it = named(first.label), "it" if n == 1 else "them"
    did = "no longer lists" if first.state == "gone" else "has switched off"
    ours = "our webhook endpoint" if n == 1 else f"{n} of our webhook endpoints"
    return (
        f"**{who} {did} {ours}**, first seen {span(first.since_s)} ago. Nothing comes through {it}. "
        f"Switch {it} on there, then run nottwice catch-up."
    )


def _unknown(now: Snapshot) -> str:
    first = now.endpoints_unknown[0]
    return f"Whether {named(first.label)} still posts to our webhook endpoints is not known since {span(first.silent_s)}."
