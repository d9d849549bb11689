"""The only room that talks to providers. One file a provider; a kind in the configuration names it here.

A provider's package is imported when one of its kind is built: together they cost 0.3 s of processor time, which a
worker that sends by one of them, or by none, need not pay at its start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ledger.errors import Misconfigured
from ledger.settings import ProviderSettings, Settings
from worker.providers.protocol import Provider

if TYPE_CHECKING:
    from worker.providers.agentmail_listing import Mailbox

__all__ = ["KINDS", "Provider", "build", "build_all", "mailbox"]


def _agentmail(name: str, table: ProviderSettings, key: str) -> Provider:
    from worker.providers.agentmail import AgentMail

    return AgentMail(name, table.base_url, key)


def _inboxili(name: str, table: ProviderSettings, key: str) -> Provider:
    from worker.providers.inboxili import Inboxili

    return Inboxili(name, table.base_url, key)


def _mailera(name: str, table: ProviderSettings, key: str) -> Provider:
    from worker.providers.mailera import Mailera

    return Mailera(name, table.base_url, key, table.spelling)


def _smtp(name: str, table: ProviderSettings, key: str) -> Provider:
    from worker.providers.smtp import Smtp

    return Smtp(name, table, key)


KINDS: dict[str, Callable[[str, ProviderSettings, str], Provider]] = {
    "agentmail": _agentmail,
    "inboxili": _inboxili,
    "mailera": _mailera,
    "smtp": _smtp,
}


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
    return kind(name, provider, settings.secret(provider.key) if provider.key else "")


def mailbox(settings: Settings, name: str) -> Mailbox:
    """One provider's inboxes, to be read. Raises Misconfigured for a kind that lists no messages."""
    from worker.providers.agentmail_listing import Mailbox

    provider = settings.providers[name]
    if provider.kind != "agentmail":
        raise Misconfigured(
            f"[providers.{name}] is of kind {provider.kind}, which lists no messages. Use a file: --file FILE."
        )
    return Mailbox(name, provider.base_url, settings.secret(provider.key))
