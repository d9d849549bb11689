"""What a handler raises to say what should become of its event."""

from __future__ import annotations

from math import isfinite

DELAY_S_MAX = 86_400.0  # of one RetryLater: after a day of them in a row each counts as an attempt anyway


class RetryLater(Exception):
    """Something this event needs is unavailable: try again in `delay_s`, without counting against the event.

    At once for a time that has passed, and after a day for anything longer. Raises ValueError for what is no number of
    seconds, which is then the handler's own failure.
    """

    def __init__(self, delay_s: float, reason: str = "") -> None:
        if isinstance(delay_s, bool) or not isinstance(delay_s, int | float) or not isfinite(delay_s):
            raise ValueError(f"RetryLater takes a number of seconds, not {delay_s!r}.")
        self.delay_s = min(max(float(delay_s), 0.0), DELAY_S_MAX)
        super().__init__(reason or f"again in {self.delay_s:g} s")


class SetAside(Exception):
    """This event can never succeed: a person must look at it. The words are shown to that person, as text."""
