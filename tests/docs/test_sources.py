"""docs/sources.md says of every source what its code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ledger.receiver.sources import kinds

PAGE = (Path(__file__).parents[2] / "docs" / "sources.md").read_text("utf-8")
SECTION = re.compile(r"^## ([^\n]+) \(`([^`]+)`\)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = {kind: (title, text) for title, kind, text in SECTION.findall(PAGE)}


def test_every_kind_has_its_section_and_no_other_has() -> None:
    assert set(SECTIONS) == set(kinds())


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_a_section_says_what_the_code_says(kind: str) -> None:
    title, text = SECTIONS[kind]
    facts = kinds()[kind].facts
    assert title.casefold() == facts.sender.casefold()
    assert facts.table() in text
