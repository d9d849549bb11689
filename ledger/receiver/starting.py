"""How the receiver starts: without a database too, and it recovers by itself."""

from __future__ import annotations

import sys

from ledger.errors import LedgerError
from ledger.receiver.memory import return_large_blocks
from ledger.receiver.open_files import allow_many
from ledger.receiver.server import serve
from ledger.receiver.several import serve_several, shared_socket
from ledger.receiver.sources import mistakes
from ledger.running.rehearsal import CANNOT_START, REHEARSE
from ledger.settings import Settings, load


def main() -> int:
    allow_many()
    try:
        settings = load()
        shared = shared_socket(sys.argv)
        if REHEARSE in sys.argv:
            return _rehearse(settings)
        if shared is None and settings.receiver.processes > 1:
            serve_several(settings)
        else:
            return_large_blocks()
            serve(settings, shared)
    except LedgerError as error:
        _say(str(error))
        return CANNOT_START
    return 0


def _rehearse(settings: Settings) -> int:
    """The exit code, after all that is wrong with the sources was said."""
    found = mistakes(settings)
    for what in found:
        _say(what)
    return CANNOT_START if found else 0


def _say(what: str) -> None:
    sys.stderr.write(f"nottwice receive: {what}\n")
