"""Bodies of strangers as text: exact, bounded, and never an error."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.kept.readable import HEX_BYTES_MAX, laid_out, readable, spelled, value_at, value_words

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@pytest.mark.parametrize(
    "exact", ["9007199254740993", "007", "1111111111111111111111.10", "1e400", '"\\u00e9"', '"\\u0000"']
)
def test_ui_13_digits_and_escapes_stay_as_they_were_spelled(exact: str) -> None:
    body = f'{{"id":{exact},"b":[]}}'.encode()
    assert exact in readable(body).text


@given(DOCUMENTS)
def test_laying_out_adds_blanks_and_nothing_else(document: object) -> None:
    spelling = json.dumps(document, separators=(",", ":"))
    assert json.loads(laid_out(spelling)) == document
    assert laid_out(spelling).replace("\n", "").replace(" ", "") == spelling.replace(" ", "")


def test_a_document_is_laid_out_a_member_a_line() -> None:
    assert laid_out('{"a":[1,2],"b":{},"c":"x, {y}"}').splitlines() == [
        "{", '  "a": [', "    1,", "    2", "  ],", '  "b": {},', '  "c": "x, {y}"', "}",
    ]  # fmt: skip


@given(st.binary(max_size=2000))
def test_any_bytes_become_bounded_storable_text(body: bytes) -> None:
    read = readable(body, most=500)
    read.text.encode()
    assert "\x00" not in read.text and read.size_bytes == len(body)
    assert len(read.text) <= (500 * 9 if not read.binary else HEX_BYTES_MAX * 5)


def test_a_broken_byte_in_a_text_is_shown_as_what_it_is() -> None:
    read = readable(b'{"name": "J\xfcrgen", "street": "somewhere else"}')
    assert not read.binary and "J\\xfcrgen" in read.text


def test_what_is_no_text_is_shown_as_numbers() -> None:
    read = readable(bytes(range(256)) * 4)
    assert read.binary and not read.whole
    assert read.text.splitlines()[2].endswith(
        """20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f   !"#$%&'()*+,-./"""
    )


def test_a_long_text_says_that_it_was_cut() -> None:
    read = readable(b"x" * 30_000)
    assert not read.whole and len(read.text) == 20_000 and readable(b"x" * 20_000).whole


def test_a_body_of_brackets_is_laid_out_no_further_than_it_is_shown() -> None:
    """Each of its tokens would stand behind a hundred blanks."""
    body = b"[" * 60 + b"0," * 190_000 + b"0" + b"]" * 60
    read = readable(body)
    assert len(read.text) == 20_000 and not read.whole
    assert len(laid_out(body.decode(), most=20_000)) < 20_200
    assert laid_out('{"a": 1}', most=100) == laid_out('{"a": 1}')


def test_a_value_is_found_at_its_path() -> None:
    document = {"a": {"b": [{"c": 1}]}, "": 2}
    assert value_at(document, ("a", "b", "0", "c")) == 1 and value_at(document, ("",)) == 2
    assert value_at(document, ("a", "b", "7")) is None and value_at(document, ("a", "x", "y")) is None
    assert [value_words(v) for v in ("007", 10**22, True, None, {"a": [Decimal("1.10")]})] == [
        "007", "10000000000000000000000", "true", "null", '{"a": [1.10]}',
    ]  # fmt: skip
    assert spelled(("a", "b", "0")) == "a.b.0" and spelled(()) == "(all of it)"
