"""The only room that talks to providers. One file a provider; a kind in the configuration names it here."""

from __future__ import annotations

from collections.abc import Callable

from ledger.errors import Misconfigured
from ledger.settings import Settings
from worker.providers.agentmail import AgentMail
from worker.providers.inboxili import Inboxili
from worker.providers.protocol import Provider

KINDS: dict[str, Callable[[str, str, str], Provider]] = {"agentmail": AgentMail, "inboxili": Inboxili}

__all__ = ["KINDS", "Provider", "build", "build_all"]


def build_all(settings: Settings) -> dict[str, Provider]:
    """The configured providers by name. Raises Misconfigured."""
    return {name: build(settings, name) for name in settings.providers}


def build(settings: Settings, name: str) -> Provider:
    """One provider by its name. Raises Misconfigured for an unknown kind, a missing key, a bad address."""
    provider = settings.providers[name]
    kind = KINDS.get(provider.kind)
    if kind is None:
        raise Misconfigured(
            f"[providers.{name}] has kind {provider.kind!r}; known are {', '.join(sorted(KINDS))}."
        )
    return kind(name, provider.base_url, settings.secret(provider.key))
