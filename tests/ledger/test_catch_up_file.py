"""A file of JSON lines in batches: numbers, bounds, and the place to go on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.catch_up import file as catch_up_file
from ledger.catch_up.file import Batch, Lines
from ledger.errors import Misconfigured

LINE_BYTES_MAX = 10


def batches(path: Path, position: dict[str, object] | None = None) -> list[Batch]:
    with Lines(path, position) as lines:
        return list(lines.batches(LINE_BYTES_MAX))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\n\n  \ntwo\r\n\xff\x00\nlast")
    return path


def test_lines_have_their_numbers_and_blank_ones_are_passed_over(file: Path) -> None:
    (batch,) = batches(file)
    assert list(zip(batch.numbers, batch.bodies, strict=True)) == [
        (1, b"one"),
        (4, b"two"),
        (5, b"\xff\x00"),
        (6, b"last"),
    ]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_that_is_too_long_is_named_and_stops_nobody(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"a" * 10 + b"\n" + b"b" * 11 + b"\n" + b"c" * 3_000_000 + b"\nd\n" + b"e" * 10 + end)
    (batch,) = batches(path)
    assert (batch.numbers, batch.too_long) == ([1, 4, 5], [2, 3])
    assert [body[:1] for body in batch.bodies] == [b"a", b"d", b"e"]


def test_a_stopped_file_goes_on_after_its_last_batch(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up_file, "LINES_MAX", 2)
    first, second = batches(file)
    with Lines(file, first.position) as lines:
        assert lines.goes_on
        assert [batch.numbers for batch in lines.batches(LINE_BYTES_MAX)] == [[5, 6]]
    assert batches(file, second.position) == []


def test_a_file_that_grew_goes_on_and_another_one_begins_anew(file: Path) -> None:
    (whole,) = batches(file)
    with file.open("ab") as grown:
        grown.write(b"\nmore\n")
    with Lines(file, whole.position) as lines:
        assert lines.goes_on and [b.bodies for b in lines.batches(LINE_BYTES_MAX)] == [[b"more"]]
    file.write_bytes(file.read_bytes().replace(b"one", b"eno"))
    with Lines(file, whole.position) as lines:
        assert not lines.goes_on and next(lines.batches(LINE_BYTES_MAX)).numbers[0] == 1
    file.write_bytes(b"one\n")
    with Lines(file, whole.position) as lines:
        assert not lines.goes_on and next(lines.batches(LINE_BYTES_MAX)).bodies == [b"one"]


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read: No such file"):
        Lines(tmp_path / "nothing")
    with pytest.raises(Misconfigured, match="cannot be read: Is a directory"):
        Lines(tmp_path)
