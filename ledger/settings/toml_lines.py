"""On which line of a TOML file a name stands: `tomllib` does not say, and without it one has to search."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

Path = tuple[str | int, ...]

NAME = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
KEY = re.compile(rf"\s*({NAME}(?:\s*\.\s*{NAME})*)\s*=")
HEADER = re.compile(r"\s*(\[{1,2})([^\[\]]+)\]{1,2}\s*(?:#.*)?$")


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """The line of the name at `path`, else of the nearest table around it; None when none of it is there."""
    lines: dict[Path, int] = {}
    for found, line in _names(text):
        for length in range(1, len(found) + 1):
            lines.setdefault(found[:length], line)
    wanted = tuple(path)
    return next((lines[wanted[:n]] for n in range(len(wanted), 0, -1) if wanted[:n] in lines), None)


def _names(text: str) -> Iterator[tuple[Path, int]]:
    """Every table header and key with its full path. Names inside an inline table belong to its line."""
    table: Path = ()
    seen: Counter[Path] = Counter()  # how many [[tables]] of a name came so far
    for line, content in enumerate(text.splitlines(), 1):
        if header := HEADER.match(content):
            table = _within_lists(_parts(header[2]), seen)
            if header[1] == "[[":
                seen[table] += 1
                table = (*table, seen[table] - 1)
            yield table, line
        elif key := KEY.match(content):
            yield (*table, *_parts(key[1])), line


def _within_lists(parts: Path, seen: Counter[Path]) -> Path:
    """`[people.address]` belongs to the last of the `[[people]]` so far."""
    path: Path = ()
    for part in parts[:-1]:
        path = (*path, part)
        if seen[path]:
            path = (*path, seen[path] - 1)
    return (*path, *parts[-1:])


def _parts(dotted: str) -> Path:
    """`sources."my source"` as its parts, read by the TOML parser itself."""
    parts: list[str] = []
    level: Any = tomllib.loads(f"{dotted.strip()} = 0")
    while isinstance(level, dict):
        name, level = next(iter(level.items()))
        parts.append(name)
    return tuple(parts)
