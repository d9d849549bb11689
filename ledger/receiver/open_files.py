"""How many connections the receiver may hold: each is an open file, and machines give a process 1,024 of them unless asked.

Connections that say nothing are closed after `head_within_s`. Until then a thousand of them took every place, and senders
were cut off before they had said a word; so a process asks for as many as it may have.
"""

from __future__ import annotations

import resource
from contextlib import suppress

OPEN_MAX = 65_536  # some systems have no limit at all, and others refuse what is far beyond their own


def allow_many() -> None:
    """Raises the soft limit to the hard one, to OPEN_MAX at most; never lowers it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS allows fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
