"""Bodies as documents, for a source that is told how its sender writes them: JSON, a form, a text; JSON inside JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ledger import payload
from ledger.payload import Element, Malformed
from ledger.payload import form as payload_form
from ledger.receiver.sources.terms import Arrival


def whole(arrival: Arrival, body_format: Literal["json", "form", "text"]) -> list[Element]:
    """The body as one event: a form's fields are members, a text is the member `text`. None for `[]`. Raises Malformed."""
    content_type = arrival.headers.get("content-type", "")
    if body_format == "form":
        document: Any = payload_form.read(arrival.body, content_type).document
    elif body_format == "text":
        document = payload_form.as_text(arrival.body, content_type).document
    else:
        document = payload.parse(arrival.body)
    return [] if document == [] else [Element(document, arrival.body)]


def opened(document: Any, paths: Sequence[str]) -> Any:
    """The document with the JSON that stands as a text at each path in place of that text; as it is where there is none."""
    for path in paths:
        document = _opened(document, path.split("."))
    return document


def _opened(document: Any, path: Sequence[str]) -> Any:
    if not isinstance(document, Mapping) or path[0] not in document:
        return document
    value = document[path[0]]
    inner = _opened(value, path[1:]) if path[1:] else _parsed(value)
    return {**document, path[0]: inner}


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        found = payload.parse(value.encode("utf-8", "surrogatepass"))
    except Malformed:
        return value
    return found if isinstance(found, Mapping | list) else value
