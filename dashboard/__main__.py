"""`python -m dashboard`: the console as a process. It ends with 0 when it is asked to, with 2 when it cannot start."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from ledger.errors import Misconfigured

CANNOT_START = 2


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)  # uvicorn takes them over, closes what is open, and hands them back to us
    from dashboard.serving import serve
    from ledger.settings import load

    try:
        serve(load())
    except Misconfigured as error:
        sys.stderr.writelines((str(error), "\n"))
        return CANNOT_START
    return 0


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
