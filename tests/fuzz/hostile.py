"""Values and bytes that break something somewhere, and ways to work them into an honest document."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any


class Raw(str):
    """Stands in a document as it is, as no JSON writer would put it there."""

    __slots__ = ()


class Object(list[tuple[str, Any]]):
    """An object's members in their order, some of them twice."""


TEXTS = [
    "", " ", "\n", "0", "null", "None", "a\x00b", "\ud800", "x\udfff", "🎉", "\u202egpj", "\u2028", "é" * 90, "t" * 201,
    "<script>alert(1)</script>", "=1+1", "@SUM(A1)", "\t=1", "'; DROP TABLE events; --", "{{7*7}}", "%s%n", "../../etc",
    "a" * 3000, "__proto__", "2026-03-01T10:00:00Z", "9999-12-31T23:59:59-14:00", "<m@example.com>", "\r\nBcc: x@example.org",
]  # fmt: skip
TOKENS = [
    "NaN", "Infinity", "-Infinity", "1e400", "1E-400", "-0.0", "-0", "1.0", "1e0", "10e-1", "0.10", "1e100000", "1e100001",
    "1e9999999999999999", "9" * 999, "9" * 1001, "-" + "9" * 1000, "0." + "3" * 990, "1009513310189256287", "01", "+1", ".5", "1.",
    "tru", "nul", "'a'", "undefined", "[" * 65 + "]" * 65, "[" * 63 + "]" * 63, '{"a":' * 70 + "1" + "}" * 70, '"\\ud800\\u0000"',
    '"\\x"', '"a\tb"', '"\\', "[1,]", "{,}", "", "/**/1", '{"a":1,"a":1}', '{"a":1,"\\u0061":2}', "[" + "0," * 300 + "0]",
]  # fmt: skip
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**53 + 1,
    10**30,
    [],
    {},
    [[]],
    ["a"],
    1.5,
    -1e12,
    1e300,
    4102444800000,
]


def value(random: Random) -> Any:
    kind = random.random()
    if kind < 0.35:
        return random.choice(TEXTS)
    if kind < 0.6:
        return Raw(random.choice(TOKENS))
    if kind < 0.9:
        return random.choice(VALUES)
    return {random.choice(TEXTS): random.choice(VALUES), "id": random.choice(TEXTS)}


def spell(document: Any, random: Random) -> str:
    """JSON, escaped or not; an object may be given as pairs."""
    if isinstance(document, Raw):
        return str(document)
    if isinstance(document, dict):
        document = Object(document.items())
    if isinstance(document, Object):
        return (
            "{"
            + ",".join(f"{spell(name, random)}:{spell(member, random)}" for name, member in document)
            + "}"
        )
    if isinstance(document, list):
        return "[" + ",".join(spell(element, random) for element in document) + "]"
    if isinstance(document, str):
        return json.dumps(document, ensure_ascii=random.random() < 0.5)
    return json.dumps(document)


def changed(document: Any, random: Random) -> Any:
    """The document with one place of it replaced, removed, doubled, or wrapped."""
    way = random.random()
    document = dict(document) if isinstance(document, Object) else document
    if isinstance(document, dict) and document and way < 0.85:
        return _member_changed(document, random, way)
    if isinstance(document, list) and document and way < 0.85:
        at = random.randrange(len(document))
        return [*document[:at], changed(document[at], random), *document[at + 1 :]]
    return value(random)


def _member_changed(document: dict[str, Any], random: Random, way: float) -> Any:
    name = random.choice(list(document))
    pairs = Object(document.items())
    at = list(document).index(name)
    if way < 0.08:
        del pairs[at]
    elif way < 0.13:
        pairs.insert(random.randrange(len(pairs)), (name, value(random)))
    elif way < 0.2:
        pairs[at] = (random.choice(TEXTS), document[name])
    else:
        pairs[at] = (name, changed(document[name], random) if way < 0.6 else value(random))
        return dict(pairs)
    return pairs


# ── bytes ─────────────────────────────────────────────────────────────────────────────────────────────

PIECES = [
    *(b"\x00", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80"),
    *(b'"', b"\\", b"{", b"]", b" "),
]
Damage = Callable[[bytes, Random], bytes]


def _flipped(body: bytes, random: Random) -> bytes:
    if not body:
        return b"\x00"
    at = random.randrange(len(body))
    return body[:at] + bytes([body[at] ^ (1 << random.randrange(8))]) + body[at + 1 :]


def _cut(body: bytes, random: Random) -> bytes:
    return body[: random.randrange(len(body) + 1)]


def _filled(body: bytes, random: Random) -> bytes:
    at = random.randrange(len(body) + 1)
    piece = random.choice(PIECES)
    return body[:at] + piece * random.choice([1, 1, 1, 2, 300]) + body[at:]


# At a limit, or over it: of a body, its values, its elements, its depth, one text, one element.
LARGE: list[Callable[[bytes], bytes]] = [
    lambda body: body[:1] + b'"pad":"' + b"a" * 4_900_000 + b'",' + body[1:],
    lambda body: body[:1] + b'"pad":"' + "é🎉".encode() * 150_000 + b'",' + body[1:],
    lambda body: body[:1] + b'"pad":[' + b"1e9," * 190_000 + b"0]," + body[1:],
    lambda body: body[:1] + b'"pad":[' + b"[]," * 400_000 + b"0]," + body[1:],
    lambda body: b"[" + (body + b",") * 300 + b'{"id":"last"}]',
    lambda body: b"[" + b'{"id":1,"type":"t"},' * 5_001 + b"0]",
    lambda body: b"[" + body + b',{"id":"' + b"x" * 1_000_001 + b'"}]',
    lambda body: body + b" " * 5_000_001,
    lambda body: b"[" * 300_000 + body,
    lambda body: body.replace(b'"id"', b'"' + b"i" * 300_000 + b'"') + b" ",
]
DAMAGE: list[Damage] = [
    _flipped,
    _flipped,
    _cut,
    _filled,
    _filled,
    lambda body, _: b"\xef\xbb\xbf" + body,
    lambda body, _: body.decode("utf-8", "replace").encode("utf-16"),
    lambda body, _: body.decode("utf-8", "replace").encode("utf-16-le"),
    lambda body, _: body + body,
    lambda _, random: random.randbytes(random.choice([0, 1, 2, 7, 60, 600])),
    lambda body, random: bytes(random.sample(list(body), len(body))),
]
