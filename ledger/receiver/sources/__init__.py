"""One file a source; a kind in the configuration names its adapter here."""

from __future__ import annotations

from ledger.errors import Misconfigured
from ledger.receiver.sources.adapter import Adapter
from ledger.receiver.sources.agentmail import AgentMail
from ledger.receiver.sources.generic import Generic
from ledger.receiver.sources.inboxili import Inboxili
from ledger.settings import Settings

KINDS: dict[str, type[Adapter]] = {"agentmail": AgentMail, "generic": Generic, "inboxili": Inboxili}


def adapters(settings: Settings) -> dict[str, Adapter]:
    """The configured sources by name. Raises Misconfigured for an unknown kind, a missing secret, a wrong option."""
    return {name: _adapter(settings, name) for name in settings.sources}


def _adapter(settings: Settings, name: str) -> Adapter:
    source = settings.sources[name]
    kind = KINDS.get(source.kind)
    if kind is None:
        raise Misconfigured(
            f"[sources.{name}] has kind {source.kind!r}; known are {', '.join(sorted(KINDS))}."
        )
    if not source.secrets:
        raise Misconfigured(f"[sources.{name}] needs at least one secret: nobody else may deliver there.")
    return kind(name, source, [settings.secret(secret) for secret in source.secrets])
