"""Review: which uncertain send first; did it go out? The queue, one send with the whole window, or many with one cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

from dashboard import session
from dashboard.components import NOTHING_HERE
from dashboard.screens import review_list, review_queue, review_send, review_together
from ledger.database import Transaction
from ledger.views import review as views_review
from ledger.views import together as views_together

T = TypeVar("T")
DIGITS_MAX = 18  # of a bigint that is certainly one


def page() -> None:
    for name, draw in (("send", _send), ("cause", _cause), ("list", _list)):
        asked = st.query_params.get_all(name)
        if asked:
            draw(_number(asked))
            return
    review_queue.draw()


def _number(asked: list[str]) -> int | None:
    """What an address names. An address only shows; nothing is ever done because of one."""
    text = asked[0]
    if len(asked) != 1 or not (text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX):
        return None
    return int(text)


def _read(read: Callable[[Transaction, int], T | None], number: int | None) -> T | None:
    return None if number is None else session.read(lambda tx: read(tx, number))


def _send(number: int | None) -> None:
    role = session.chosen().role
    found = _read(lambda tx, id_: views_review.send(tx, role, id_), number)
    review_send.draw(found) if found is not None else _nothing()


def _cause(number: int | None) -> None:
    found = _read(views_together.group, number)
    review_together.draw(found) if found is not None else review_together.none_waits()


def _list(number: int | None) -> None:
    found = _read(views_together.decided_list, number)
    review_list.draw(found) if found is not None else _nothing()


def _nothing() -> None:
    st.title(NOTHING_HERE, anchor=False)
    if st.button("All that wait", icon=":material/arrow_back:", type="tertiary"):
        st.query_params.clear()
        st.rerun()
