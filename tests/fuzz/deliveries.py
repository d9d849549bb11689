"""Requests to every kind of source that there is: honest, forged, and wild. Nothing here knows a kind by its name."""

from __future__ import annotations

import gzip
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random
from unittest import mock

from ledger import payload
from ledger.receiver.sources import kinds
from ledger.settings import Settings
from ledger.simulated import Sending, speaker
from tests import fix_sources
from tests.fuzz import hostile

# Beside a block of every kind: the options under which a body is read in another way.
GENERIC = (
    '[sources.%s]\nkind = "generic"\nnamespace = "fuzz"\nsecrets = ["SHOP"]\nsignature_header = "X-Sig"\n'
)
NAMED = 'key_path = "id"\ntype_path = "type"\ntime_path = "created"\nordering_path = "data.customer"\n'
MORE = {
    "fuzz_plain": 'key_header = "X-Key"\ntype_header = "X-Type"\ndelivery_header = "X-Delivery"\n',
    "fuzz_form": NAMED + 'body_format = "form"\n',
    "fuzz_text": 'body_format = "text"\nkey_path = "text"\nkey_spelling = "message-id"\ntype_constant = "mail"\n',
    "fuzz_packed": NAMED + 'coded = "plain"\n',
    "fuzz_wired": NAMED + 'coded = "coded"\n',
}
CONFIG = fix_sources.CONFIG + "".join(GENERIC % name + options + "\n" for name, options in MORE.items())

LARGE_SHARE = 0.0005  # of all bodies
HEADS = [
    *(
        b"X-Odd: \xff\x01",
        b"no colon",
        b": empty",
        b"X-Long: " + b"a" * 70_000,
        b"Host: b",
        b" folded",
        b"\x00",
    ),
    *(b"Expect: 100-continue", b"Transfer-Encoding: chunked", b"Content-Length: 3"),
    b"Upgrade: h2c\r\nConnection: Upgrade",
]  # lines of a head that no client would write


class Kind(Enum):
    HONEST = "honest"  # signed as the provider signs, whatever is in it
    FORGED = "forged"  # what was signed is not what was sent
    WILD = "wild"  # methods, paths, codings, heads


@dataclass(frozen=True)
class Request:
    """One request, and what is known of it."""

    kind: Kind
    source: str
    body: bytes
    headers: dict[str, str]
    method: str = "POST"
    path: str = ""
    success: int = 200
    plain: bytes = b""  # the body, where it is sent compressed
    chunks: tuple[int, ...] = ()  # the sizes it is sent in; none: with a length
    more: tuple[bytes, ...] = field(default=())  # lines of the head that no client would write


@contextmanager
def _invented_by(random: Random) -> Iterator[None]:
    """What the examples invent comes from the seed too, so that a campaign can be run again."""
    with mock.patch.multiple(
        secrets,
        token_hex=lambda size=32: random.randbytes(size).hex(),
        token_urlsafe=lambda size=32: random.randbytes(size).hex(),
        randbelow=random.randrange,
    ):
        yield


class Deliveries:
    """An endless stream of requests, the same for the same seed but for the time."""

    def __init__(self, settings: Settings, random: Random) -> None:
        self._random, self._sources, self._made = random, settings.sources, 0
        self._names = sorted(settings.sources)
        self._examples: dict[str, list[bytes]] = {}

    def __iter__(self) -> Iterator[Request]:
        while True:
            yield self.one()

    def one(self) -> Request:
        random, name = self._random, self._random.choice(self._names)
        body = self._body(name)
        honest = self._signed(name, body)
        way = random.random()
        if way < 0.62:
            return self._framed(self._decorated(honest))
        if way < 0.85:
            return self._forged(honest)
        return self._wild(honest)

    # -- bodies -------------------------------------------------------------------------------------------

    def _example(self, name: str) -> bytes:
        """One of a few, so that events meet: the same again, and the same key with other content."""
        known = self._examples.setdefault(name, [])
        if len(known) < 8 or self._random.random() < 0.1:
            source = self._sources[name]
            with _invented_by(self._random):
                known.append(speaker(source).example(source, self.secret(name), len(known)))
            del known[:-8]
        return self._random.choice(known)

    def _body(self, name: str) -> bytes:
        random, body = self._random, self._example(name)
        if random.random() < LARGE_SHARE:
            return random.choice(hostile.LARGE)(body)
        if random.random() < 0.25:
            return random.choice(hostile.DAMAGE)(body, random)
        try:
            document = payload.parse(body)
        except payload.Malformed:  # a form, or a text
            return body if random.random() < 0.5 else hostile.DAMAGE[0](body, random)
        for _ in range(random.choice([0, 1, 1, 1, 2, 4])):
            document = hostile.changed(document, random)
        if random.random() < 0.12:
            document = [document, hostile.value(random), *[document] * random.choice([0, 1, 3])]
        return hostile.spell(document, random).encode("utf-8", "surrogatepass")

    # -- requests -----------------------------------------------------------------------------------------

    def secret(self, name: str) -> str:
        return fix_sources.secret(self._sources[name].kind)

    def _signed(self, name: str, body: bytes) -> Request:
        source = self._sources[name]
        self._made += 1
        sending = Sending(self.secret(name), f"d{self._random.randrange(10**9)}", int(time.time()))
        coded = source.coded in ("plain", "coded") and self._random.random() < 0.7
        sent = gzip.compress(body, 1, mtime=0) if coded else body
        signed = sent if source.coded == "coded" else body
        headers = speaker(source).headers(source, sending, signed)
        headers |= {"Content-Encoding": "gzip"} if coded else {}
        success = source.success_status or kinds()[source.kind].facts.success
        return Request(
            Kind.HONEST, name, sent, headers, path=f"/webhooks/{name}", success=success, plain=body
        )

    def _decorated(self, request: Request) -> Request:
        """With fields that nothing signs."""
        random, more = self._random, {}
        if random.random() < 0.3:
            more["Content-Type"] = random.choice(
                ["text/plain", "a/b; charset=utf-16", "\xff\xfe", "x" * 3000, "multipart/form-data"]
            )
        if random.random() < 0.2:
            more["X-Delivery"] = random.choice(["d\xe9", "d" * 3000, ",,,", "=1+1"])
        return replace(request, headers={**request.headers, **more})

    def _framed(self, request: Request) -> Request:
        if self._random.random() > 0.2:
            return request
        most = max(1, len(request.body))
        return replace(request, chunks=tuple(self._random.randint(1, most) for _ in range(3)))

    def _forged(self, honest: Request) -> Request:
        """Bytes, or a field that is signed or signs, are not what they were."""
        random, body, headers = self._random, honest.body, dict(honest.headers)
        if not self._is_signed(honest.source):  # its proof stands in the body
            body = body.replace(self.secret(honest.source).encode(), b"a guess")
        elif random.random() < 0.7:
            body = random.choice(hostile.DAMAGE)(body, random)
        else:
            headers = self._damaged(honest)
        is_the_same = body == honest.body and headers == honest.headers
        kind = Kind.HONEST if is_the_same else Kind.FORGED
        if (
            self._sources[honest.source].coded == "plain"
        ):  # gzip has bytes that mean nothing, and nothing signs them
            kind = Kind.WILD
        return replace(honest, kind=kind, body=body, headers=headers)

    def _is_signed(self, name: str) -> bool:
        return not kinds()[self._sources[name].kind].facts.signature.startswith("none")

    def _damaged(self, honest: Request) -> dict[str, str]:
        """The signature's own field."""
        random, headers = self._random, dict(honest.headers)
        name = next(n for n in headers if "sig" in n.lower() or "hmac" in n.lower())
        text = headers[name]
        cut = text[: random.randrange(len(text))]
        headers[name] = random.choice(
            [cut, text[::-1], "", "\xe9" * 9, ",,,=", "v1,", "v1=" + "0" * 64, "A" * 5000]
        )
        return headers

    def _wild(self, honest: Request) -> Request:
        random, way = self._random, self._random.randrange(5)
        wild = replace(honest, kind=Kind.WILD)
        if way == 0:
            return replace(wild, method=random.choice(["GET", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH"]))
        if way == 1:
            odd = [
                "/",
                "/webhooks/",
                "/webhooks/nobody",
                "/webhooks/%00",
                "/webhooks/../x",
                "/healthz",
                "/readyz",
                "/webhooks/a/b/c",
                "/" + "x" * 3000,
            ]
            return replace(wild, path=random.choice(odd))
        if way == 2:
            query = random.choice(
                [
                    "validationToken=%3Cb%3E",
                    "validationToken=",
                    "validationToken=%ff%00",
                    "a=1&a=2",
                    "%",
                    "x" * 2000,
                ]
            )
            return replace(wild, path=f"{honest.path}?{query}")
        if way == 3:
            coding = random.choice(
                ["gzip", "br", "deflate", "zstd", "gzip, gzip", "identity", "", "x-gzip", "\xff"]
            )
            return replace(wild, headers={**honest.headers, "Content-Encoding": coding})
        return replace(wild, more=(random.choice(HEADS),))
