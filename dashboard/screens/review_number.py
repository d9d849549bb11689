"""The number of a message, as a person gives it: one that nothing of ours names is asked about once more, beside the button."""

from __future__ import annotations

from dataclasses import dataclass, replace

import streamlit as st

from dashboard import session
from dashboard.words import provider
from ledger.evidence import known_messages
from ledger.views.review import Send


@dataclass(frozen=True, slots=True)
class Number:
    """What a person typed. `is_doubted`: nothing of ours has it, and they have not said yet where they read it."""

    message_id: str = ""
    read_in: str = ""
    is_doubted: bool = False


NONE = Number()


def field(send: Send) -> Number:
    """Where the number is typed; it may be left out."""
    typed = st.text_input(
        f"Message number at {provider(send.provider)} (leave it empty if you have none)",
        placeholder="as the provider shows it",
        max_chars=200,
        key=f"number_{send.id}_{send.version}",
    )
    return Number(typed.strip())


def asked_again(send: Send, number: Number) -> Number:
    """The question about a number that nothing of ours has. A form tells what was typed when its button is pressed, so
    that the question comes with the first press, right above the button, and nothing is done by that one.
    """
    if not number.message_id or session.read(
        lambda tx: known_messages.is_seen(tx, send.id, number.message_id)
    ):
        return number
    st.warning(
        "**Nothing was done yet.** This number is on no notice and in no look-up of ours. Compare it once more.",
        icon=":material/tag:",
    )
    key = f"read_in_{send.id}_{send.version}"
    read_in = st.text_input("If it is right: I read it in …", max_chars=200, key=key).strip()
    return replace(number, read_in=read_in, is_doubted=not read_in)
