"""What is wrong with a configuration file, in sentences: file, line, what, and what was probably meant.

Never with a value: a secret that was written into the file by mistake must not end in a log.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ledger.settings.toml_lines import line_of

TYPES = {
    "string_type": "a text in quotes",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list in [ ]",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def explain(file: Path, text: str, error: ValidationError, model: type[BaseModel]) -> str:
    """All that is wrong, one line each."""
    found = error.errors(include_url=False)
    return "\n".join(_sentence(file, text, one, model) for one in found if not _only_follows(one, found))


def _only_follows(details: ErrorDetails, found: Sequence[ErrorDetails]) -> bool:
    """Whether a list is said to be too short only because an entry of it is wrong."""
    loc = details["loc"]
    return details["type"] == "too_short" and any(other["loc"][:-1] == loc for other in found)


def explain_syntax(file: Path, error: tomllib.TOMLDecodeError) -> str:
    """TOML's own complaint, with the line first."""
    what, line = str(error), ""
    if found := re.search(r" \(at line (\d+), column \d+\)$", what):
        what, line = what[: found.start()], f", line {found[1]}"
    return f"{file}{line}: this is not TOML: {what}."


def placed(file: Path | None, path: Sequence[str | int], what: str) -> str:
    """One sentence about the setting at `path`, for what is only found out when the file is used."""
    ended = what if what.endswith("?") else f"{what}."
    if file is None:
        return f"{_named(path)} {ended}"
    try:
        return _placed(file, file.read_text(encoding="utf-8"), path, ended)
    except (OSError, ValueError):  # it was there a moment ago
        return f"{file}: {_named(path)} {ended}"


def _sentence(file: Path, text: str, details: ErrorDetails, model: type[BaseModel]) -> str:
    path = (*details["loc"], *details.get("ctx", {}).get("inner", ()))
    return _placed(file, text, path, _what(details, path, model))


def _placed(file: Path, text: str, path: Sequence[str | int], what: str) -> str:
    line = line_of(text, path)
    return f"{file}{f', line {line}' if line else ''}: {_named(path)} {what}"


def _named(path: Sequence[str | int]) -> str:
    """`[sources.agentmail] kind`: the table in brackets and the name in it, `secrets (entry 1)` where it is a list."""
    if len(path) > 1 and isinstance(path[-1], int) and isinstance(path[-2], str):
        path = (*path[:-2], f"{path[-2]} (entry {path[-1] + 1})")
    *table, name = [str(part) for part in path if part != "[key]"]
    return f"[{'.'.join(table)}] {name}" if table else name


def _what(details: ErrorDetails, path: Sequence[str | int], model: type[BaseModel]) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return "is not a setting" + meant(str(path[-1]), _names(model, path[:-1]))
    if kind in ("literal_error", "enum"):
        words = re.findall(r"[\w-]+", str(context["expected"]).replace(" or ", " "))
        return f"must be one of {', '.join(words)}" + meant(str(details["input"]), words, tell=False)
    if kind == "wrong":
        return f"{context['what']}."
    if kind in TYPES:
        return f"must be {TYPES[kind]}."
    return "is missing." if kind == "missing" else f"{_as_ours(details['msg'])}."


def _as_ours(message: str) -> str:
    """`Tuple should have at least 1 item after validation, not 0` becomes `must have at least 1 item`."""
    return re.sub(r" after validation.*$", "", re.sub(r"^\w+ should", "must", message))


def meant(word: str, known: Sequence[str], *, tell: bool = True) -> str:
    """The end of a sentence about a word that is not known: which one was probably meant, or which there are."""
    if close := get_close_matches(word, known, n=1):
        return f"; did you mean {close[0]}?"
    return f"; known here are {', '.join(known)}." if known and tell else "."


def _names(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The settings of the table at `path`: through named tables and lists of tables."""
    inside: Any = model
    for part in path:
        if _is_table(inside):
            field = inside.model_fields.get(str(part))
            inside = _table_of(field.annotation) if field else None
        else:  # dict[name, Table] or tuple[Table, ...]
            inside = next(filter(_is_table, get_args(inside)), None)
    return list(inside.model_fields) if _is_table(inside) else []


def _table_of(annotation: Any) -> Any:
    """The table in `Table | None`; anything else as it is."""
    tables = [one for one in get_args(annotation) if _is_table(one)]
    return tables[0] if type(None) in get_args(annotation) and tables else annotation


def _is_table(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
