"""`python -m ledger.receiver`: the receiver as a process. Starts without a database and recovers by itself."""

from __future__ import annotations

import sys

from ledger.errors import LedgerError
from ledger.receiver.server import serve
from ledger.settings import load


def main() -> int:
    try:
        serve(load())
    except LedgerError as error:
        sys.stderr.write(f"nottwice receive: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
