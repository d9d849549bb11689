"""`[actions.KIND]`: what holds for one kind of what goes out."""

from __future__ import annotations

from typing import Literal

from ledger.records import Policy
from ledger.settings_types import Name, PositiveSeconds, Seconds, Table


class ActionSettings(Table):
    """`[actions.KIND]`: by which provider a kind goes, and what happens when nobody can know.

    `cost` and `cost_reason` are what a second e-mail of this kind would do, in the review desk's words.
    """

    provider: Name
    policy: Policy = Policy.REVIEW
    approval: bool = False
    evidence_s: Seconds = 300.0
    retry_for_s: PositiveSeconds = 86_400.0
    cost: Literal["high", "medium", "low"] = "high"
    cost_reason: str = ""
    once_ever: bool = False  # its keys are never given up: what went out once never goes out again
