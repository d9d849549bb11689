"""Errors of other people's code in words."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

import ledger

OURS = (Path(__file__).parent, Path(ledger.__file__).parent)
PYTHON = Path(sysconfig.get_path("stdlib"))


def in_words(error: BaseException) -> str:
    """An error of somebody else's code in one line: its type, its words, and where it was raised.

    Of a database's error only the first line of the server: the rest quotes statements, keys and values. Never raises:
    an error whose own words cannot be read is told by its type.
    """
    try:
        return _in_words(error)
    except Exception:  # noqa: BLE001 - it was written by a stranger
        return f"{type(error).__name__}, whose words cannot be read"


def _in_words(error: BaseException) -> str:
    original = getattr(error, "orig", None) or error
    words = " ".join(
        str(getattr(getattr(original, "diag", None), "message_primary", None) or original).split()
    )
    frames = traceback.extract_tb(error.__traceback__)
    where = next(
        (f" ({Path(f.filename).name}, line {f.lineno})" for f in reversed(frames) if _is_users(f)), ""
    )
    return f"{type(original).__name__}{': ' if words else ''}{words}{where}"


def _is_users(frame: traceback.FrameSummary) -> bool:
    """Not a package's, not Python's own, and not ours: the demo's handlers, in a folder of their own, count as a user's."""
    file = Path(frame.filename)
    if "site-packages" in file.parts or frame.filename.startswith("<frozen"):
        return False
    return file.parent not in OURS and PYTHON not in file.parents
