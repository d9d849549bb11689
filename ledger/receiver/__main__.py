"""`python -m ledger.receiver`: the receiver as a process. Starts without a database and recovers by itself."""

from __future__ import annotations

import sys

from ledger.errors import LedgerError
from ledger.receiver.memory import return_large_blocks
from ledger.receiver.server import serve
from ledger.receiver.sources import adapters
from ledger.rehearsal import REHEARSE
from ledger.settings import load


def main() -> int:
    try:
        settings = load()
        if REHEARSE in sys.argv:
            adapters(settings)
        else:
            return_large_blocks()
            serve(settings)
    except LedgerError as error:
        sys.stderr.write(f"nottwice receive: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
