"""Streamlit's own scripts, styles and fonts, from memory: its way from the disk takes a thread a piece, seventy files a visit.

Their names hold a digest of what they say, so a browser keeps them for good.
"""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ledger.environment import package_folder

FOLDER = package_folder("streamlit") / "static"
FOREVER = b"public, immutable, max-age=31536000"
Headers = list[tuple[bytes, bytes]]


def found(path: str) -> tuple[Headers, bytes] | None:
    """The file at an address of this console, with its headers; None for what is none of them."""
    return _read(path) if path in _addresses() else None


@cache
def _addresses() -> frozenset[str]:
    """Nothing else is ever read, whatever a path says."""
    return frozenset(f"/{one.relative_to(FOLDER).as_posix()}" for one in FOLDER.glob("static/*/*"))


@lru_cache(maxsize=256)
def _read(path: str) -> tuple[Headers, bytes]:
    """Kept from the first time that somebody asks for it: some 9 MB, once all pages were looked at."""
    body = Path(FOLDER, path[1:]).read_bytes()
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    headers = [(b"content-type", kind.encode()), (b"cache-control", FOREVER)]
    return [*headers, (b"content-length", b"%d" % len(body))], body


def parts_of(names: Iterable[str]) -> list[str]:
    """The addresses of what a browser fetches for elements of Streamlit's, each with all that it needs. Unknown ones need nothing."""
    parts, by_name = _parts(), {one.get("name"): key for key, one in _parts().items() if "css" not in key}
    needed = {key: None for name in names if name in by_name for key in _with_needs(by_name[name], parts)}
    return [f"./{parts[key]['file']}" for key in needed]


def _with_needs(key: str, parts: dict[str, Any]) -> Iterator[str]:
    waiting, seen = [key], set[str]()
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += parts[one].get("imports", [])
            yield one


@cache
def _parts() -> dict[str, Any]:
    """As Streamlit's build wrote down: of each part its file, and which others it imports."""
    written: dict[str, Any] = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
    return written
