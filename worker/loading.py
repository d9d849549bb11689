"""The user's module with its handlers: found, imported, checked."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from ledger.errors import Misconfigured
from ledger.settings import Settings
from worker.handlers import Handlers
from worker.words import in_words


def load(settings: Settings) -> Handlers:
    """The registry of the configured module. Raises Misconfigured with the reason in one sentence."""
    name = settings.worker.handlers
    if not name:
        return Handlers()
    beside = str(settings.config.parent if settings.config else Path.cwd())
    if beside not in sys.path:
        sys.path.append(
            beside
        )  # last: a file there must not stand in for a package that somebody else imports
    module = _import(name)
    found = getattr(module, "handlers", None)
    if not isinstance(found, Handlers):
        place = getattr(module, "__file__", None) or "no file"
        raise Misconfigured(
            f"[worker] handlers: the module {name} has no `handlers = Handlers()` (it was found at {place})."
        )
    found.check(settings.sources)
    return found


def _import(name: str) -> object:
    try:
        return importlib.import_module(name)
    except Misconfigured:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's module does while it is imported
        raise Misconfigured(
            f"[worker] handlers: the module {name} cannot be imported: {in_words(error)}."
        ) from error
