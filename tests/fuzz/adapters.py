"""Each kind's adapter by itself, with documents that Hypothesis invents and, where one breaks, makes small."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import hypothesis
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ledger.payload import Malformed, is_storable, parse
from ledger.receiver.sources import adapters
from ledger.receiver.sources.adapter import Adapter, Arrival, Forged, Item
from ledger.records import Delivery
from ledger.settings import Settings, SourceSettings
from ledger.simulated import Sending, speaker
from tests import fix_sources
from tests.fuzz.hostile import TEXTS, TOKENS

SPELLED = [token.encode() for token in TOKENS]
FAULT = "Our reading of it failed."


def check(settings: Settings, examples: int, *, derandomize: bool = False) -> int:
    """So many examples, spread over the sources; returns how many ran. Raises what broke, made small."""
    found = adapters(settings)
    limits = hypothesis.settings(
        max_examples=max(1, examples // len(found)),
        derandomize=derandomize,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return sum(_check(adapter, settings.sources[name], limits) for name, adapter in found.items())


def _check(adapter: Adapter, source: SourceSettings, limits: hypothesis.settings) -> int:
    ran, documents = 0, st.one_of(_like(_names(source)), st.binary(max_size=200), st.sampled_from(SPELLED))

    @limits
    @given(documents)
    def each(body: bytes) -> None:
        nonlocal ran
        ran += 1
        holds(adapter, source, body)

    each()
    return ran


def _names(source: SourceSettings) -> list[str]:
    """The members that this kind's provider writes, and those of the configuration."""
    found: set[str] = {
        part for path in (source.key_path, source.type_path, source.time_path) for part in path.split(".")
    }
    try:
        _collect(parse(speaker(source).example(source, fix_sources.secret(source.kind), 1)), found.add)
    except Malformed:
        found |= {"payload", "text"}
    return sorted(found)


def _collect(value: Any, add: Callable[[str], None]) -> None:
    if isinstance(value, dict):
        for name, member in value.items():
            add(name)
            _collect(member, add)
    elif isinstance(value, list):
        for element in value:
            _collect(element, add)


def _like(names: list[str]) -> st.SearchStrategy[bytes]:
    """Documents with the provider's own names at any place."""
    scalars = (
        st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(TEXTS) | st.text(max_size=8)
    )
    member = st.sampled_from(names) | st.text(max_size=3)
    values = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(member, inner, max_size=6),
        max_leaves=20,
    )
    return values.map(lambda document: json.dumps(document).encode())


def holds(adapter: Adapter, source: SourceSettings, body: bytes) -> None:
    """What must hold of one document. Raises AssertionError."""
    at = int(time.time())
    headers = speaker(source).headers(source, Sending(fix_sources.secret(source.kind), "d1", at), body)
    lower = {name.lower(): value for name, value in headers.items()}
    arrival = Arrival(lower, body, datetime.fromtimestamp(at, UTC), f"/webhooks/{adapter.name}")
    is_signed = not adapter.facts.signature.startswith("none")
    try:
        items = adapter.read(*arrival)
        assert adapter.read(*arrival) == items, "it is read differently the second time"
    except Malformed:
        items = []
    except Forged:
        assert not is_signed
        items = []
    for item in items:
        _can_be_stored(item, body)
    if is_signed:
        _is_forged(adapter, arrival._replace(body=body + b" "))
        _is_forged(adapter, arrival._replace(headers={}))


def _can_be_stored(item: Item, body: bytes) -> None:
    if not isinstance(item, Delivery):
        assert not item.reason.startswith(FAULT), item
        return
    assert item.event_key.strip() and is_storable(item.event_key + item.type) and item.type
    assert len(item.key_digest) == len(item.content_digest) == 32
    # No member that says nothing becomes a key: these are one only where the sender wrote the word itself.
    assert item.event_key not in ("None", "null") or f'"{item.event_key}"'.encode() in body, item


def _is_forged(adapter: Adapter, arrival: Arrival) -> None:
    try:
        adapter.read(*arrival)
    except Forged:
        return
    raise AssertionError("altered bytes were taken for the provider's")
