"""docs/sources.md says of every source what its code says, names every option, and its own source works as it stands."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ledger.receiver import sources
from ledger.receiver.sources import adapters, kinds
from ledger.receiver.sources.adapter import Adapter, Forged
from ledger.records import Unusable
from ledger.settings import load
from ledger.settings.sources import OF_SOME_KINDS, SourceSettings
from tests.docs.book import blocks

FILE = Path(__file__).parents[2] / "docs" / "sources.md"
PAGE = FILE.read_text("utf-8")
SECTION = re.compile(r"^## ([^\n]+) \(`([^`]+)`\)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = {kind: (title, text) for title, kind, text in SECTION.findall(PAGE)}


def test_every_kind_has_its_section_and_no_other_has() -> None:
    assert set(SECTIONS) == set(kinds())


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_a_section_says_what_the_code_says(kind: str) -> None:
    title, text = SECTIONS[kind]
    facts = kinds()[kind].facts
    assert title.casefold() == facts.sender.casefold()
    assert facts.table() in text


def test_every_option_is_explained() -> None:
    told = PAGE[PAGE.index("## Configure one") : PAGE.index("## AgentMail (")]
    said = set(re.findall(r"`(\w+)`", told)) | {
        option for block in re.findall(r"```toml\n(.*?)```", told, re.DOTALL)
        for table in tomllib.loads(block)["sources"].values() for option in table
    }  # fmt: skip
    unsaid = (OF_SOME_KINDS | set(SourceSettings.model_fields)) - said - {"provider"}
    assert not unsaid, "`provider` is explained with what became of a message"


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_every_block_of_configuration_works(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nottwice.toml").write_text(block)
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    for name in ("SHOP", "MAILERA", "SUPPORT_WEBHOOK"):
        monkeypatch.setenv(f"NOTTWICE_SECRET_{name}", "whsec_bm90IHR3aWNlLCBhIHRlc3Q=")
    assert adapters(load())


SECRET = "the parcels' own secret"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVENT = {
    "id": "p-1",
    "event": "delivered",
    "at": "2026-03-01T11:00:00Z",
    "parcel": {"number": 7},
    "attempt": 1,
}


@pytest.fixture
def parcel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Adapter]:
    """The page's own source, in a folder that is looked through as if it were the sources'."""
    for block in blocks(FILE):
        if block.words:
            (tmp_path / block.words).write_text(block.text)
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(tmp_path)])
    for name, value in (
        ("HOME", str(tmp_path)),
        ("CONFIG", str(tmp_path / "parcel.toml")),
        ("SECRET_PARCELS", SECRET),
    ):
        monkeypatch.setenv(f"NOTTWICE_{name}", value)
    kinds.cache_clear()
    yield adapters(load())["parcels"]
    kinds.cache_clear()


def test_the_pages_own_source_works_as_it_stands(parcel: Adapter) -> None:
    def read(body: bytes, secret: str = SECRET) -> list[object]:
        time = str(int(NOW.timestamp()))
        mac = hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()
        return list(parcel.read({"x-parcel-time": time, "x-parcel-signature": mac}, body, NOW))

    first, again, test = (
        json.dumps(EVENT | more).encode() for more in ({}, {"attempt": 2}, {"event": "test"})
    )
    ((one,), (repeat,), (ignored,)) = map(read, (first, again, test))
    assert (one.type, one.event_key, one.namespace) == ("delivered", "p-1", "acme")
    assert (one.key_digest, one.content_digest) == (repeat.key_digest, repeat.content_digest)
    assert (one.ignored, ignored.ignored) == (False, True)
    good, bad = read(b"[%b, {}]" % first)
    assert good.body == first and isinstance(bad, Unusable)
    with pytest.raises(Forged):
        read(first, "another secret")
