"""How the receiver starts: without a database too, and it recovers by itself."""

from __future__ import annotations

import sys

from ledger.errors import LedgerError
from ledger.receiver.memory import return_large_blocks
from ledger.receiver.server import serve
from ledger.receiver.several import serve_several, shared_socket
from ledger.receiver.sources import adapters
from ledger.rehearsal import REHEARSE
from ledger.settings import load


def main() -> int:
    try:
        settings = load()
        shared = shared_socket(sys.argv)
        if REHEARSE in sys.argv:
            adapters(settings)
        elif shared is None and settings.receiver.processes > 1:
            serve_several(settings)
        else:
            return_large_blocks()
            serve(settings, shared)
    except LedgerError as error:
        sys.stderr.write(f"nottwice receive: {error}\n")
        return 2
    return 0
