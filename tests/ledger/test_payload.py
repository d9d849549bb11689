"""The one reading of bodies: what is refused, what stays exact, and what counts as the same content."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import payload
from ledger.payload import Malformed
from ledger.records import Event

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}{}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1,"a":1}',
        b'{"o":{"a":1,"\\u0061":2}}',
        b'{"a":"\x00"}',
        b"\x00{}",
        b"\xef\xbb\xbf{}",
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        '{"a":1}'.encode("utf-16"),
        b"[" * 100_000,
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b"1" * 1001,
        b"1e9999999999999999999999",
        b"1e-100001",
        b"[" + b"0," * payload.VALUES_MAX + b"0]",
        b"[" + b'{"":[]},' * 100_000 + b"0]",
        b"'a'",
        b"[1,]",
    ],
)
def test_what_is_no_document_is_refused_without_quoting_it(body: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        payload.parse(body)
    assert len(str(refused.value)) < 80


def test_a_body_over_its_limit_is_refused() -> None:
    assert payload.parse(b"[1]", bytes_max=3) == [1]
    with pytest.raises(Malformed, match="more than 2 bytes"):
        payload.parse(b"[1]", bytes_max=2)


def test_numbers_stay_exact() -> None:
    found = payload.parse(b'{"id":1009513310189256287,"amount":12.10,"huge":1e400,"zero":-0.0}')
    assert found["id"] == 1009513310189256287
    assert str(found["amount"]) == "12.10"
    assert found["huge"] == Decimal("1e400")
    assert str(found["zero"]) == "-0.0"


def test_depth_counts_brackets_outside_of_strings_only() -> None:
    assert payload.parse(json.dumps({"text": '[{"' * 1000}).encode()) == {"text": '[{"' * 1000}
    assert payload.parse(b"[" * 64 + b"]" * 64)


def test_values_are_counted_outside_of_strings() -> None:
    assert len(payload.parse(b'["' + b",[{" * 100_000 + b'",' + b"0," * 199_000 + b"0]")) == 199_002
    assert len(payload.parse(b"[" + b"0," * (payload.VALUES_MAX - 1) + b"0]")) == payload.VALUES_MAX


@given(DOCUMENTS)
def test_what_python_writes_is_read_back(document: Any) -> None:
    assert payload.parse(json.dumps(document).encode()) == document


@given(st.binary(max_size=60))
def test_any_bytes_are_a_document_or_refused(body: bytes) -> None:
    with suppress(Malformed):
        payload.canonical(payload.parse(body))


@given(st.lists(DOCUMENTS, max_size=5))
def test_elements_are_the_bytes_they_were_spelled_in(documents: list[Any]) -> None:
    spelled = [
        json.dumps(document, indent=1, ensure_ascii=False).encode("utf-8", "replace")
        for document in documents
    ]
    body = b" [ " + b" ,\n".join(spelled) + b" ]\r\n"
    assert [element.body for element in payload.elements(body)] == spelled
    inside = b'{"a": {"list": [0]}, "\\u006cist" :' + body + b', "b": "]" }'
    assert [element.body for element in payload.elements(inside, "list")] == spelled


@pytest.mark.parametrize("body", [b"{}", b"[1", b"[1,]", b"[,1]", b"[1 2]", b"[1]]", b"[NaN]", b"[", b"1"])
def test_elements_of_no_list_are_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        payload.elements(body)


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b"1", b"{}", b'{"b":[1]}', b'{"a":1}', b'{"a":{}}', b'{"b":{"a":[1]}}']
)
def test_elements_of_no_member_are_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        payload.elements(body, "a")


@pytest.mark.parametrize(
    "rest", [b"", b"]", b"}x", b',"a":[]}', b',"b":NaN}', b',"b":1,}', b',"b":{"c":1,"c":1}}']
)
def test_elements_of_a_member_are_refused_for_whatever_stands_around_them(rest: bytes) -> None:
    with pytest.raises(Malformed):
        payload.elements(b'{"a":[1]' + rest, "a")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("data.object.id", "x"),
        ("data.list.1", "b"),
        ("data.list.2", None),
        ("data.missing.id", None),
        ("data.object.id.more", None),
        ("data.list.99999999999999999999", None),
        ("", None),
    ],
)
def test_a_path_finds_its_value_or_nothing(path: str, found: Any) -> None:
    document = {"data": {"object": {"id": "x"}, "list": ["a", "b"]}}
    assert payload.look_up(document, path) == found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (0, "0"),
        (7, "7"),
        (1009513310189256287, "1009513310189256287"),
        (" a ", " a "),
        *((Decimal(number), "7") for number in ("7.0", "70e-1", "0.7e1", "7e0")),
        *((Decimal(number), "0") for number in ("0.0", "-0.0", "0e9")),
        (Decimal("-1.5e3"), "-1500"),
        (Decimal("1e999"), "1" + "0" * 999),
        *((Decimal(number), None) for number in ("1e1000", "1e99999", "0.1", "1.5e0", "1e-1")),
        *((value, None) for value in ("", "   ", "\n", None, True, False, [], {}, ["a"], Decimal("1.5"))),
    ],
)
def test_an_id_is_text_or_an_integer_and_never_blank(value: Any, text: str | None) -> None:
    assert payload.identity(value) == text


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("2026-03-01T10:00:00Z", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("2026-03-01T12:00:00+02:00", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("2026-03-01T10:00:00", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        (1772359200, datetime(2026, 3, 1, 10, tzinfo=UTC)),
        (1772359200000, datetime(2026, 3, 1, 10, tzinfo=UTC)),
        (Decimal("1772359200.5"), datetime(2026, 3, 1, 10, 0, 0, 500_000, tzinfo=UTC)),
        *(
            (value, None)
            for value in (
                "yesterday",
                "",
                "0001-01-01T00:00:00+14:00",
                "9999-12-31T23:59:59-14:00",
                None,
                True,
                [],
                10**30,
                Decimal("1e9999"),
                -(10**12),
            )
        ),
    ],
)
def test_a_moment_is_in_utc_and_in_a_year_that_can_be_shown(value: Any, at: datetime | None) -> None:
    assert payload.moment(value) == at


@pytest.mark.parametrize(
    "control", "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
def test_what_turns_a_line_round_is_shown_and_stored_as_it_is(control: str) -> None:
    text = f"שלום {control} مرحبا"
    assert payload.shown(text) == f"שלום ⟨U+{ord(control):04X}⟩ مرحبا"
    assert payload.storable(text) == text and payload.shown("שלום مرحبا 🎉") == "שלום مرحبا 🎉"


def test_what_text_cannot_hold_is_shown() -> None:
    assert payload.shown("a\x00b\ud83cc🎉") == "a⟨U+0000⟩b⟨U+D83C⟩c🎉"
    assert payload.shown("C:\\u0000dir") == "C:\\u0000dir"
    assert payload.storable("a\x00b\u202ec") == "a⟨U+0000⟩b\u202ec"
    assert payload.is_storable("🎉") and not payload.is_storable("\udfff") and not payload.is_storable("\x00")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":2}', b'{ "b" : 2,\n"a":1 }'),
        (b"[1]", b"[1.0]"),
        (b"[12.10]", b"[1.21e1]"),
        (b"[0]", b"[-0.0]"),
        (b"[0.00]", b"[0E+5]"),
        (b"[100]", b"[1e2]"),
        (b"[1e2000]", b"[10e1999]"),
        ('["🎉é"]'.encode(), b'["\\ud83c\\udf89\\u00e9"]'),
    ],
)
def test_the_same_content_has_one_digest_however_it_is_spelled(one: bytes, other: bytes) -> None:
    assert payload.content_digest(payload.parse(one)) == payload.content_digest(payload.parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"[1]", b'["1"]'),
        (b"[12.1]", b"[12.10000000000000000000000000000000001]"),
        (b"[1]", b"[true]"),
        (b"[]", b"{}"),
        (b"[null]", b"[]"),
        (b'["\\ud83c"]', b'["\\udf89"]'),
        (b"[1e2000]", b"[1e2001]"),
        (b"[0.5]", b'[{"":[0,"5",-1]}]'),
    ],
)
def test_other_content_has_another_digest(one: bytes, other: bytes) -> None:
    assert payload.content_digest(payload.parse(one)) != payload.content_digest(payload.parse(other))


def test_volatile_members_are_no_content() -> None:
    first = {"id": 1, "attempt": 1, "meta": {"sent_at": 1, "kept": 1}}
    again = {"id": 1, "attempt": 2, "meta": {"sent_at": 9, "kept": 1}}
    volatile = ("attempt", "meta.sent_at")
    assert payload.content_digest(first, volatile) == payload.content_digest(again, volatile)
    assert payload.content_digest(first) != payload.content_digest(again)
    changed = {**again, "meta": {"sent_at": 9, "kept": 2}}
    assert payload.content_digest(first, volatile) != payload.content_digest(changed, volatile)
    assert first["attempt"] == 1 and first["meta"] == {"sent_at": 1, "kept": 1}


@pytest.mark.parametrize(
    "body", [b"{", b'{"a": 1, "a": 2}', b"[" * 65 + b"]" * 65, b"NaN", b"1" * 1001, b"\xef\xbb\xbf{}"]
)
def test_a_handler_reads_an_event_by_the_rules_that_accepted_it(body: bytes) -> None:
    with pytest.raises(Malformed):
        _event(body).json()
    assert _event(b'{"amount": 10.10}').json() == {"amount": Decimal("10.10")}


def _event(body: bytes) -> Event:
    return Event(1, "acme", "shop", "sale", "k", body, datetime.now(UTC), None)
