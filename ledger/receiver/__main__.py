"""`python -m ledger.receiver`: the receiver as a process."""

from __future__ import annotations

import sys

from ledger import faults, hangups

if __name__ == "__main__":
    hangups.hold()  # ahead of what takes a while to import
    faults.point("receiver.starts")
    from ledger.receiver.starting import main

    sys.exit(main())
