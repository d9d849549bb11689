"""One file a source. A module in this folder that declares an adapter with a `kind` is one; nothing else names it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

from ledger.errors import Misconfigured
from ledger.receiver.sources.adapter import Adapter, WrongOption
from ledger.receiver.sources.facts import CLOCKLESS
from ledger.settings import Settings, SourceSettings
from ledger.settings.sources import ASSUMED_PATHS, OF_SOME_KINDS
from ledger.settings.words import meant, placed


@cache
def kinds() -> dict[str, type[Adapter]]:
    """The adapter of each kind. Raises Misconfigured for a file that cannot be imported, and for a kind declared twice."""
    found: dict[str, type[Adapter]] = {}
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        for adapter in _declared(module):
            if adapter.kind in found:
                raise Misconfigured(
                    f"Two sources declare the kind {adapter.kind}; the second is {module}.py."
                )
            found[adapter.kind] = adapter
    return found


def adapters(settings: Settings) -> dict[str, Adapter]:
    """The configured sources by name. Raises Misconfigured for an unknown kind, a missing secret, a wrong option."""
    return {name: _adapter(settings, name, settings.secret) for name in settings.sources}


def mistakes(settings: Settings) -> list[str]:
    """What stops each source, the first of each. A secret that is not here is no mistake: who asks may have none."""
    found = []
    for name in settings.sources:
        try:
            _adapter(settings, name, lambda secret: _if_here(settings, secret))
        except Misconfigured as error:
            found.append(str(error))
    return found


def _if_here(settings: Settings, secret: str) -> str | None:
    with suppress(Misconfigured):
        return settings.secret(secret)
    return None


def _declared(module: str) -> Iterator[type[Adapter]]:
    try:
        members = vars(importlib.import_module(f"{__name__}.{module}")).values()
    except Exception as error:
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise Misconfigured(f"The source in {module}.py cannot be imported: {what}.") from error
    for member in members:
        is_adapter = isinstance(member, type) and issubclass(member, Adapter) and "kind" in vars(member)
        if is_adapter and member.__module__ == f"{__name__}.{module}":
            yield member


def _adapter(settings: Settings, name: str, secret: Callable[[str], str | None]) -> Adapter:
    source = settings.sources[name]
    try:
        kind = _kind(name, source)
        _refuse_foreign_options(name, source, kind)
        made = kind(name, source, [text for text in map(secret, source.secrets) if text is not None])
        _refuse_empty_options(name, source)
        return made
    except WrongOption as error:
        place = ("sources", name, error.option)
        raise Misconfigured(placed(settings.config, place, error.what)) from None


def _kind(name: str, source: SourceSettings) -> type[Adapter]:
    known = kinds()
    if source.kind not in known:
        what = f"must be one of {', '.join(sorted(known))}" + meant(source.kind, sorted(known), tell=False)
        raise WrongOption(name, "kind", what.rstrip("."))
    return known[source.kind]


def _refuse_foreign_options(name: str, source: SourceSettings, kind: type[Adapter]) -> None:
    for option in sorted(source.model_fields_set & OF_SOME_KINDS - kind.facts.takes):
        what = f"is not for kind {kind.kind}, which has its own rules; {_takers(option)}"
        raise WrongOption(name, option, what)
    if kind.facts.clock == CLOCKLESS and "tolerance_s" in source.model_fields_set:
        raise WrongOption(name, "tolerance_s", f"does nothing for kind {kind.kind}, which signs no timestamp")


def _refuse_empty_options(name: str, source: SourceSettings) -> None:
    """Empty means something only where a path is assumed: that there is none."""
    for option in sorted(source.model_fields_set - ASSUMED_PATHS.get(source.kind, {}).keys()):
        if getattr(source, option) == "":
            raise WrongOption(name, option, "is empty; leave it out, or say what it is")


def _takers(option: str) -> str:
    *others, last = sorted(kind.kind for kind in kinds().values() if option in kind.facts.takes)
    return f"kinds {', '.join(others)} and {last} take it" if others else f"kind {last} takes it"
