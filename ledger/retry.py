"""Backoff, pure: attempt number and chance in, delay out."""

from __future__ import annotations


def event_delay_s(attempt: int, chance: float, *, base_s: float = 2.0, jitter: float = 0.25) -> float:
    """Seconds an event waits after its `attempt`-th failure (1, 2, 3 …): 2, 4, 8 …

    `chance` is a number in [0, 1); jitter adds up to a quarter, so that no delay is shorter than promised.
    """
    return float(base_s * 2 ** (attempt - 1) * (1 + jitter * chance))


def action_delay_s(failures: int, chance: float, *, base_s: float = 2.0, delay_s_max: float = 600.0) -> float:
    """Seconds an action waits after its `failures`-th attempt that was certainly not sent (1, 2, 3 …).

    Spread over the whole interval (0, 2·2ⁿ], capped at ten minutes: after an outage of the provider, five
    hundred sends must not come back in the same second.
    """
    exponent = min(failures, 40)
    ceiling = min(base_s * 2.0**exponent, delay_s_max)
    return float(ceiling * (1.0 - chance))
