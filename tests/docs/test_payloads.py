"""docs/payloads.md is read row by row, and each row is tried: in the receiver, a handler, the page and an export."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ledger.audit import spreadsheet
from ledger.event_types import TYPE_BYTES_MAX
from ledger.kept.readable import CHARACTERS_MAX, readable
from ledger.payload import DEPTH_MAX, DIGITS_MAX, VALUES_MAX
from ledger.payload import form as payload_form
from ledger.receiver.sources.terms import ELEMENT_BYTES_MAX, ELEMENTS_MAX
from ledger.receiver.wire import HEAD_BYTES_MAX
from ledger.records import Event
from tests import fix_receiver as fix
from tests.fix_receiver import LIMIT, Door

PAGE = (Path(__file__).parents[2] / "docs" / "payloads.md").read_text("utf-8")
SUCCESS = {"shop": 202, "packed": 200, "wired": 200}
SOURCES = ("shop", "packed", "wired")  # in the order of the columns: refused, plain, coded
PLAIN = b'{"id":"plain","type":"t"}'
_numbers = count()


def rows(section: str) -> Iterator[list[str]]:
    """The cells of a section's table, without the marks around code."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    for line in [line for line in text.splitlines() if line.startswith("|")][2:]:
        yield [re.sub(r"^`(.*)`$", r"\1", cell.strip()) for cell in line[1:-1].split("|")]


def spelled(cell: str) -> bytes:
    """The bytes of a cell: those in ‹hexadecimal›, and those ‹of × which there are many›."""
    parts = re.split(r"(‹[^›]+›)", cell)
    return b"".join(_part(part[1:-1]) if part.startswith("‹") else part.encode() for part in parts)


def _part(words: str) -> bytes:
    one, is_many, times = words.partition(" × ")
    return one.encode() * int(times) if is_many else bytes.fromhex(words)


# ── documents ─────────────────────────────────────────────────────────────────────────────────────────


def test_every_document_has_its_answer_and_is_read_alike(door: Door) -> None:
    for what, cell, answer, read, page, export in rows("Documents"):
        door.begin()
        body = spelled(cell)
        assert door.receiver.shop(body) == (400 if answer == "400" else 202), what
        assert (door.count("events"), door.count("quarantine")) == _stored(answer), what
        if answer == "stored":
            assert door.bodies() == [body], what
            _is_read(body, read, spelled(page).decode(), spelled(export).decode(), what)


def _stored(answer: str) -> tuple[int, int]:
    return {"400": (0, 0), "taken": (0, 0), "stored": (1, 0), "quarantine": (0, 1)}[answer]


def _is_read(body: bytes, read: str, page: str, export: str, what: str) -> None:
    at = datetime.now(UTC)
    event = Event(1, "acme", "shop", "t", "k", body, at, None)
    (value,) = (member for name, member in event.json().items() if name not in ("id", "type"))
    if read:  # the largest are not written out
        expected = eval(read, {"Decimal": Decimal, "int": int})  # the page is ours
        assert (type(value), value) == (type(expected), expected) and str(value) == str(expected), what
        assert page in readable(body, most=CHARACTERS_MAX).text, what
        assert str(spreadsheet.cell(value)) == export, what


# ── ids and contents ──────────────────────────────────────────────────────────────────────────────────


def test_every_id_is_a_key_or_goes_to_quarantine(door: Door) -> None:
    for cell, key in rows("Ids"):
        door.begin()
        assert door.receiver.shop(b'{"id":%s,"type":"t"}' % cell.encode()) == 202
        if key == "quarantine":
            assert (door.count("events"), door.count("quarantine")) == (0, 1), cell
        else:
            assert door.rows("SELECT event_key FROM nottwice.events") == [(f"t {key}",)], cell


def test_contents_are_the_same_or_others(door: Door) -> None:
    for one, other, verdict in rows("The same content"):
        event = f"content {next(_numbers)}"
        assert [door.receiver.plain(cell.encode(), event) for cell in (one, other)] == [200, 200]
        key = f"note {event}"
        found = door.rows(
            "SELECT count(c.id) FROM nottwice.events e LEFT JOIN nottwice.conflicts c ON c.event_id = e.id WHERE event_key = %s",
            key,
        )
        assert found == [(int(verdict == "another"),)], (one, other)


# ── compressed bodies ─────────────────────────────────────────────────────────────────────────────────


def _coded(words: str) -> tuple[bytes, bytes]:
    """What is sent, and what it is when it is inflated."""
    packed, over = gzip.compress(PLAIN, mtime=0), b" " * (LIMIT + 1)
    return {
        "plain": (PLAIN, PLAIN),
        "gzip": (packed, PLAIN),
        "gzip, signed in the other form": (packed, PLAIN),
        "gzip, cut short": (packed[:-1], PLAIN),
        "gzip, and something behind it": (packed + b"x", PLAIN),
        "gzip of more than the limit": (gzip.compress(over), over),
        "gzip of gzip": (gzip.compress(packed), PLAIN),
        "deflate": (zlib.compress(PLAIN), PLAIN),
    }[words]


def test_every_coding_has_its_answer(door: Door) -> None:
    for coding, words, *answers in rows("Compressed bodies"):
        sent, plain = _coded(words)
        for source, answer in zip(SOURCES, answers, strict=True):
            signed = plain if coding and source == "packed" else sent
            if words.endswith("the other form"):
                signed = sent if source == "packed" else plain
            status = door.receiver.post(source, sent, _headers(source, signed, coding)).status_code
            expected = SUCCESS[source] if answer == "stored" else int(answer)
            assert status == expected, (coding, words, source)
    assert set(door.bodies()) == {PLAIN}


def _headers(source: str, signed: bytes, coding: str) -> dict[str, str]:
    given: dict[str, Any] = fix.shop(signed) if source == "shop" else {"X-Signature": fix.signature(signed)}
    return given | ({"Content-Encoding": coding} if coding else {})


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_limits_are_those_of_the_code() -> None:
    told = [
        int(found.replace(",", "")) for _, limit, _ in rows("Lists") for found in re.findall(r"[\d,]+", limit)
    ]
    assert told == [ELEMENTS_MAX, ELEMENT_BYTES_MAX, TYPE_BYTES_MAX, LIMIT, HEAD_BYTES_MAX]
    assert f"at most {VALUES_MAX:,}; levels by brackets, at most {DEPTH_MAX}." in PAGE
    assert f"‹9 × {DIGITS_MAX}›" in PAGE and f"‹9 × {DIGITS_MAX + 1}›" in PAGE


@pytest.mark.parametrize("section", ["Documents", "Ids", "The same content", "Compressed bodies", "Lists"])
def test_no_table_is_read_as_empty(section: str) -> None:
    assert len(list(rows(section))) >= 5


# ── forms ─────────────────────────────────────────────────────────────────────────────────────────────


def test_every_field_of_a_form_is_decoded_as_told_or_marked() -> None:
    for what, charset, field, read, page in rows("Forms"):
        text, _, mark = read.removeprefix("`").partition("`, ")
        body = _form({"charsets": f'{{"a":"{charset}"}}'.encode() if charset else b"{}", "a": spelled(field)})
        found = payload_form.read(body)
        assert found.texts["a"] == spelled(text).decode(), what
        assert ("a" in found.problems) is bool(mark), what
        assert spelled(page).decode() in readable(body).text, what


def test_the_limits_of_a_form_are_the_codes() -> None:
    assert f"more than {payload_form.FIELDS_MAX:,} fields" in PAGE


def _form(fields: dict[str, bytes]) -> bytes:
    head = 'Content-Disposition: form-data; name="{}"'
    parts = (b"--x\r\n%b\r\n\r\n%b\r\n" % (head.format(name).encode(), raw) for name, raw in fields.items())
    return b"".join(parts) + b"--x--\r\n"
