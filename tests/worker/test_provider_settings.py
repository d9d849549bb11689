"""Providers as the configuration builds them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_args

import pytest

from ledger.errors import Misconfigured
from ledger.settings import ProviderSettings, Settings
from ledger.settings.providers import LABELS, Kind
from tests.worker.calls import EACH, provider_at
from worker import providers
from worker.providers.agentmail import AgentMail


def configured(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Settings:
    monkeypatch.setenv("NOTTWICE_SECRET_API", "am-key")
    table = ProviderSettings(
        **({"kind": "agentmail", "key": "api", "base_url": "http://127.0.0.1:1"} | changes)
    )
    found: Any = SimpleNamespace(providers={"post": table}, secret=lambda name: "am-key")
    return found  # type: ignore[no-any-return]


def test_providers_are_built_by_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    built = providers.build_all(configured(monkeypatch))
    assert isinstance(built["post"], AgentMail)
    assert built["post"].name == "post"


@pytest.mark.parametrize(
    "address", ["api.agentmail.to", "ftp://x", "http://", "https://x/?a=b", "https://x/#y"]
)
@EACH
def test_an_address_that_is_none_makes_no_provider(kind: str, address: str) -> None:
    with pytest.raises(Misconfigured, match="base_url"):
        provider_at(kind, address)


def test_every_kind_of_the_configuration_can_be_built() -> None:
    assert set(providers.KINDS) == set(get_args(Kind)) == set(LABELS)
