"""`python -m worker`: the worker as a process."""

from __future__ import annotations

import os
import sys

from ledger import faults, hangups

if __name__ == "__main__":
    hangups.hold()  # ahead of what takes a while to import
    faults.point("worker.starts")
    from worker.starting import main

    code = main()
    sys.stderr.flush()
    os._exit(code)  # a handler that will not end must not keep the process
