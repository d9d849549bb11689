"""What a source can send, where that is known."""

from __future__ import annotations

import typing
from pathlib import Path

import pytest
from agentmail.events.types.event_type import EventType

from ledger.errors import Misconfigured
from ledger.event_types import KNOWN, doubt
from ledger.settings import load
from tests.fix_worker import configured


def test_agentmails_types_are_those_of_its_package() -> None:
    literal, *_ = typing.get_args(EventType)
    assert KNOWN["agentmail"] == set(typing.get_args(literal))


@pytest.mark.parametrize(
    ("kind", "type_", "words"),
    [
        ("agentmail", "message.received", ""),
        (
            "agentmail",
            "message.recieved",
            "agentmail is not known to send message.recieved; did you mean message.received?",
        ),
        ("agentmail", "invoice.paid", "agentmail is not known to send invoice.paid"),
        ("stripe", "whatever", ""),
        ("nottwice", "action.send", "nottwice is not known to send action.send; did you mean action.sent?"),
    ],
)
def test_a_type_that_never_comes_is_doubted(kind: str, type_: str, words: str) -> None:
    assert doubt(kind, type_) == words


def test_no_source_has_the_ledgers_own_name(tmp_path: Path) -> None:
    file = configured(tmp_path)
    file.write_text(file.read_text().replace("[sources.shop]", "[sources.nottwice]"))
    with pytest.raises(Misconfigured, match="is the name of what the ledger itself tells; choose another"):
        load(file)
