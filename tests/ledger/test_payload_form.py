"""Forms of strangers: fields, charsets, files and limits; any bytes are a form or malformed, and nothing else."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.payload import Malformed
from ledger.payload.form import FIELDS_MAX, as_text, json_of, looks_like_form, read
from ledger.records import Event

DISPOSITION = b"Content-Disposition: form-data; name="
MULTIPART = st.lists(
    st.sampled_from(
        [b"--x", b"--", b"\r\n", b"\r\n\r\n", DISPOSITION, b'"a"', b'"charsets"', b'; filename="f"', b"{}", b"\xe9", b'{"a":"big5"}']
    ),
    max_size=20,
).map(b"".join)  # fmt: skip


def form(*parts: tuple[bytes, bytes]) -> bytes:
    return b"".join(b"--x\r\n%b\r\n\r\n%b\r\n" % part for part in parts) + b"--x--\r\n"


@given(
    st.binary(max_size=300) | MULTIPART,
    st.sampled_from(["", "multipart/form-data; boundary=x", "text/plain"]),
)
def test_any_bytes_are_a_form_or_malformed(body: bytes, content_type: str) -> None:
    looks_like_form(body)
    for read_ in (
        lambda: read(body, content_type),
        lambda: as_text(body, content_type),
        lambda: json_of(body),
    ):
        with suppress(Malformed):
            read_()


def test_fields_are_told_by_name_and_several_of_one_name_are_a_list() -> None:
    body = form(
        (DISPOSITION + b'"a"', b"1\r\n2"), (DISPOSITION + b'"b \\"q\\""', b""), (DISPOSITION + b'"a"', b"3")
    )
    assert read(body).texts == {"a": ["1\r\n2", "3"], 'b "q"': ""}
    assert read(b"a=1&b+%22q%22=&a=3&&=x&c").texts == {"a": ["1", "3"], 'b "q"': "", "c": ""}


def test_a_file_is_described_and_not_decoded() -> None:
    raw = bytes(range(256)) * 4
    body = form((DISPOSITION + b'"up"; filename="\xe9.bin"\r\nContent-Type: image/png', raw))
    described = {"file": "image/png", "bytes": 1024, "sha256": hashlib.sha256(raw).hexdigest()}
    assert read(body).texts == {"up": described}
    assert not read(body).problems


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [("Shift_JIS", b"\x93\xfa", "日"), ("ISO-8859-15", b"\xa4", "€"), ("koi8-r", b"\xc4", "д"), ("GB18030", b"\xc8\xd5", "日")],
)  # fmt: skip
def test_charsets_of_mail_are_understood(charset: str, raw: bytes, text: str) -> None:
    typed = form((DISPOSITION + b'"a"\r\nContent-Type: text/plain; charset=' + charset.encode(), raw))
    told = form((DISPOSITION + b'"charsets"', b'{"a":"%b"}' % charset.encode()), (DISPOSITION + b'"a"', raw))
    assert read(typed).texts["a"] == read(told).texts["a"] == text
    assert not read(typed).problems and not read(told).problems


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "base64", "unicode_escape", "utf-7", "rot13", "", "é", "x" * 500]
)
def test_other_codecs_are_never_asked(charset: str) -> None:
    told = form(
        (DISPOSITION + b'"charsets"', b'{"a":"%b"}' % charset.encode()), (DISPOSITION + b'"a"', b"abc")
    )
    found = read(told)
    assert found.texts["a"] == "abc" and found.problems["a"].startswith("not ")
    assert found.document["decoding problem"] == found.problems


@pytest.mark.parametrize("charsets", [b"", b"{", b"[]", b"7", b'{"a":1}', b'{"a":null}', b"\xff"])
def test_charsets_that_are_none_leave_utf_8(charsets: bytes) -> None:
    assert (
        read(form((DISPOSITION + b'"charsets"', charsets), (DISPOSITION + b'"a"', "é".encode()))).texts["a"]
        == "é"
    )


@pytest.mark.parametrize(
    "body",
    [b"", b"abc", b"--x\r\n", form((DISPOSITION + b'"a"', b"1"))[:-8], form((b"X: y", b"1")),
     b"--x\r\nno head\r\n--x--", b"--x\r\n" + DISPOSITION + b'"a"\r\n\r\n1\r\n--xy\r\n--x--'],
)  # fmt: skip
def test_what_is_no_whole_form_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        read(body, "multipart/form-data; boundary=x")


def test_the_number_of_fields_is_bounded() -> None:
    most = [(DISPOSITION + b'"a"', b"")] * FIELDS_MAX
    assert len(read(form(*most)).texts["a"]) == FIELDS_MAX
    for body in (form(*most, most[0]), b"&".join([b"a=1"] * (FIELDS_MAX + 1))):
        with pytest.raises(Malformed, match="more than 1000 fields"):
            read(body)


def test_only_a_whole_form_is_shown_as_one() -> None:
    assert looks_like_form(b"payload=%7B%7D") and looks_like_form(form((DISPOSITION + b'"a"', b"1")))
    for other in (b"{}", b"a = b", b"caf\xe9=1", b"--x\r\nhello", b"", b"two words"):
        assert not looks_like_form(other)


def event(body: bytes) -> Event:
    return Event(1, "acme", "hooks", "t", "k", body, datetime(2026, 3, 1, tzinfo=UTC), None)


def test_a_handler_reads_json_however_it_came_and_a_forms_fields() -> None:
    assert event(b'{"a":1}').json() == event(b"payload=%7B%22a%22%3A1%7D").json() == {"a": 1}
    assert event(b"a=caf%E9").form().problems.keys() == {"a"}
    for body in (b"a=1", b"payload=x", b"--x"):
        with pytest.raises(Malformed):
            event(body).json()
