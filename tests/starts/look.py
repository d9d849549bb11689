"""A program that says as what it runs, to compare a forked one with another of an interpreter's own."""

from __future__ import annotations

import os
import signal
import sys

if __name__ == "__main__":
    seen = {
        "argv": sys.argv[1:],
        "folder": os.getcwd(),  # noqa: PTH109 - what the kernel says
        "environment": sorted(set(os.environ.items()) - {("LC_CTYPE", "C.UTF-8")}),  # Python may add it
        "open": sorted(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "term": signal.getsignal(signal.SIGTERM),
        "int": signal.getsignal(signal.SIGINT),
        "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "leads": os.getsid(0) == os.getpid(),
        "nice": os.nice(0),
        "input": os.readlink("/proc/self/fd/0"),  # noqa: PTH115
    }
    print(seen, flush=True)
    sys.stderr.write("and an error\n")
    sys.exit(3)
