"""The console script `nottwice`, ahead of everything that takes a while to import."""

from __future__ import annotations

import sys

from ledger import faults, hangups

READ_AGAIN = frozenset({"demo", "up", "receive", "work"})  # the commands to which SIGHUP means: read again


def main() -> None:
    if READ_AGAIN & set(sys.argv[1:2]):
        hangups.hold()
        faults.point("nottwice.starts")
    from ledger.cli import main as run

    run()


if __name__ == "__main__":
    main()
