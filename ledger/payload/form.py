"""Bodies that are forms, urlencoded or multipart: bytes of strangers to named texts, by one set of rules. Pure.

A field's charset is what the form's own field `charsets` says (SendGrid's inbound mail: JSON, name to charset), else its
part's Content-Type, else UTF-8. What cannot be decoded is not lost and not guessed: its text has replacement characters,
and the field is named in `problems`. A file is not decoded at all: of it name, type, size and digest are kept.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from ledger.payload.json import Malformed, parse

FIELDS_MAX = 1_000
PROBLEMS = "decoding problem"  # the member of a document that names the fields; no form names a field so
# What mail is written in. Others are not asked for: Python's codecs include ones that take quadratic time.
CHARSET = re.compile(
    r"utf-?8|us-ascii|ascii|iso-8859-([1-9]|1[0-6])|latin-?1|(windows-|cp)125[0-8]|koi8-[ru]|gb2312|gbk|gb18030|big5|"
    r"shift_jis|euc-(jp|kr)|iso-2022-jp",
    re.IGNORECASE,
)
BOUNDARY = re.compile(r'^multipart/form-data\s*;.*?boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.I | re.S)
FIRST_LINE = re.compile(rb"--([\x21-\x7e]{1,70})\r\n")
NAME = re.compile(r'\bname="((?:[^"\\]|\\.)*)"', re.S)
FILENAME = re.compile(r"\bfilename\*?=", re.I)
PART_CHARSET = re.compile(r'charset="?([^\s;"]+)', re.I)


class Field(NamedTuple):
    """One field as it came. `kind` is its part's own Content-Type."""

    name: str
    raw: bytes
    kind: str = ""
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """`texts` by name (a list where a name came several times), files described, and where decoding went wrong.

    `problems` says by name what could not be decoded: the charset that was tried, and the digest of the bytes.
    """

    texts: dict[str, Any]
    problems: dict[str, str]

    @property
    def document(self) -> dict[str, Any]:
        """The same as one document: to look things up in, and to compare. Other bytes are another document."""
        return self.texts | ({PROBLEMS: self.problems} if self.problems else {})


def read(body: bytes, content_type: str = "") -> Form:
    """The form. Without a content type the body's own beginning says which of the two it is. Raises Malformed."""
    fields = list(_fields(body, content_type))
    charsets = _charsets(fields)
    texts: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for field in fields:
        value, problem = _value(field, charsets)
        texts[field.name] = _together(texts[field.name], value) if field.name in texts else value
        if problem:
            problems[field.name] = problem
    return Form(texts, problems)


def as_text(body: bytes, content_type: str = "") -> Form:
    """A body that is one text: its only field is `text`."""
    value, problem = _value(Field("text", body, content_type), {})
    return Form({"text": value}, {"text": problem} if problem else {})


def json_of(body: bytes) -> Any:
    """The document of a body that is JSON, or a form whose field `payload` is. Raises Malformed.

    No JSON begins so, and the field's name is what GitHub and others call it.
    """
    if not body.startswith(b"payload="):
        return parse(body)
    found = read(body, "application/x-www-form-urlencoded").texts["payload"]
    if not isinstance(found, str):
        raise Malformed("It is a form with more than one payload.")
    return parse(found.encode("utf-8", "surrogatepass"))


def looks_like_form(body: bytes) -> bool:
    """Whether the bytes begin as a form does, so that people are shown its fields. Bytes alone cannot prove it."""
    if first := FIRST_LINE.match(body):
        return body[first.end() :][:21].lower() == b"content-disposition: "
    return re.match(rb"[A-Za-z0-9_.%+-]{1,100}=[\x21-\x7e]*\Z", body) is not None


def _fields(body: bytes, content_type: str) -> Iterator[Field]:
    said = BOUNDARY.match(content_type)
    if said:
        return _multipart(body, (said[1] or said[2]).encode("latin-1", "replace"))
    if first := FIRST_LINE.match(body):
        return _multipart(body, first[1])
    return _urlencoded(body)


def _urlencoded(body: bytes) -> Iterator[Field]:
    pairs = body.split(b"&", FIELDS_MAX)
    _bound(len(pairs))
    if b"=" not in body:
        raise Malformed("It is not a form.")
    for pair in pairs:
        name, _, value = pair.replace(b"+", b" ").partition(b"=")
        if name:
            yield Field(unquote_to_bytes(name).decode("utf-8", "replace"), unquote_to_bytes(value))


def _multipart(body: bytes, boundary: bytes) -> Iterator[Field]:
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary, FIELDS_MAX + 2)
    _bound(len(parts) - 1)
    if not parts or not parts[-1].startswith(b"--"):
        raise Malformed("It is a form without its end.")
    for part in parts[:-1]:
        head, blank, content = part.partition(b"\r\n\r\n")
        if not blank or not head.startswith((b"\r\n", b" ", b"\t")):
            raise Malformed("It is a form with a part that has no head.")
        yield _field(head.decode("utf-8", "replace"), content)


def _field(head: str, content: bytes) -> Field:
    said = {
        name.strip().lower(): value for name, _, value in (line.partition(":") for line in head.split("\r\n"))
    }
    disposition = said.get("content-disposition", "")
    if not (name := NAME.search(FILENAME.sub(";file=", disposition))):
        raise Malformed("It is a form with a part that has no name.")
    text = re.sub(r"\\(.)", r"\1", name[1])
    return Field(text, content, said.get("content-type", "").strip(), bool(FILENAME.search(disposition)))


def _bound(count: int) -> None:
    if count > FIELDS_MAX:
        raise Malformed(f"It is a form with more than {FIELDS_MAX} fields.")


def _charsets(fields: list[Field]) -> Mapping[str, Any]:
    given = next((field.raw for field in fields if field.name == "charsets" and not field.is_file), b"{}")
    try:
        found = parse(given)
    except Malformed:
        return {}
    return found if isinstance(found, Mapping) else {}


def _value(field: Field, charsets: Mapping[str, Any]) -> tuple[Any, str]:
    if field.is_file:
        digest = hashlib.sha256(field.raw).hexdigest()
        return {"file": field.kind, "bytes": len(field.raw), "sha256": digest}, ""
    in_part = PART_CHARSET.search(field.kind)
    said = charsets.get(field.name)
    charset = said if isinstance(said, str) else in_part[1] if in_part else "utf-8"
    try:
        if CHARSET.fullmatch(charset):
            return field.raw.decode(charset), ""
    except (UnicodeDecodeError, LookupError):
        pass
    problem = f"not {charset[:40]}, sha256 {hashlib.sha256(field.raw).hexdigest()}"
    return field.raw.decode("utf-8", "replace"), problem


def _together(before: Any, value: Any) -> list[Any]:
    return [*before, value] if isinstance(before, list) else [before, value]
