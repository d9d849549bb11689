"""The user's module with its handlers: found, imported, checked."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path

from ledger.database import refuse_inside_transaction
from ledger.errors import CallInsideTransaction, Misconfigured
from ledger.event_types import ACTION_SENT, OURS
from ledger.settings import Settings
from worker.handlers import Handlers
from worker.observer import note
from worker.words import in_words


def load(settings: Settings) -> Handlers:
    """The registry of the configured module. Raises Misconfigured with the reason in one sentence; what is only odd is noted."""
    name = settings.worker.handlers
    if not name:
        return Handlers()
    beside = str(settings.config.parent if settings.config else Path.cwd())
    if beside not in sys.path:
        sys.path.append(
            beside
        )  # last: a file there must not stand in for a package that somebody else imports
    before, running = set(Handlers.made), set(threading.enumerate())
    found = _registry(name, _import(name))
    _refuse_others(name, set(Handlers.made) - before - {found})
    found.check(settings.sources)
    _note_what_is_odd(found, settings, set(threading.enumerate()) - running)
    return found


def _registry(name: str, module: object) -> Handlers:
    found, place = getattr(module, "handlers", None), getattr(module, "__file__", None) or "no file"
    if not isinstance(found, Handlers):
        what = "has none" if found is None else f"has a {type(found).__name__} of that name"
        raise Misconfigured(
            f"[worker] handlers: the module {name} has no `handlers = Handlers()`; it {what} (it was found at {place})."
        )
    if not found.kinds:
        raise Misconfigured(
            f"[worker] handlers: the module {name} registers nothing. Import the modules with your handlers in it "
            f"(it was found at {place})."
        )
    return found


def _refuse_others(name: str, others: set[Handlers]) -> None:
    for kind in (kind for other in others for kind in other.kinds):
        raise Misconfigured(
            f"[worker] handlers: the handler of {' '.join(kind)} is in a registry that {name} does not offer. "
            f"Register it with the `handlers` of {name}."
        )


def _note_what_is_odd(found: Handlers, settings: Settings, threads: set[threading.Thread]) -> None:
    for reason in found.doubts(settings.sources):
        note("handler in doubt", why=reason)
    if (OURS, ACTION_SENT) in found.kinds and not any(a.tell_when_sent for a in settings.actions.values()):
        note("handler in doubt", why=f"no kind of action has tell_when_sent, so {ACTION_SENT} never comes")
    if threads:
        note("handlers started threads", names=sorted(thread.name for thread in threads))


def _import(name: str) -> object:
    try:
        module = importlib.import_module(name)
        refuse_inside_transaction()
        return module
    except CallInsideTransaction:
        raise Misconfigured(
            f"[worker] handlers: the module {name} leaves a transaction open when it is imported. Open one where you need it."
        ) from None
    except Misconfigured:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's module does while it is imported
        raise Misconfigured(
            f"[worker] handlers: the module {name} cannot be imported: {in_words(error)}.{_place(name, error)}"
        ) from error


def _place(name: str, error: BaseException) -> str:
    """Where the module that is named should be; nothing about one that it imports itself."""
    if not isinstance(error, ModuleNotFoundError) or error.name != name:
        return ""
    return f" Put {name.removesuffix('.py')}.py beside the configuration, and name it without .py."
