"""Events worked again and actions sent again, whole: plan a list, ask for it, agree to it, cancel it; and the worker's turn.

`recompute` works local results out again and lets nothing out of the house; `repeat` sends chosen actions once more, by two
people; `preview` runs the handlers and undoes what they did. What each step guarantees stands in the rooms: the list in
`planning.py` and `_repeats`, the people in `_requests` and `_agreements`, the turn in `_running` with `_events` and
`_sends`, the results in `_stages` and `_results`.
"""

from __future__ import annotations

from ledger.records.reprocess import Asked, Found, Listed, Plan, RowState, RunMode, RunState, Wanted
from ledger.reprocess.agreements import agree, cancel, decline
from ledger.reprocess.left_alone import leave_alone
from ledger.reprocess.limits import keep_limit
from ledger.reprocess.planning import as_seen, plan, planned
from ledger.reprocess.requests import form_of, request
from ledger.reprocess.running import turn

__all__ = [
    "Asked",
    "Found",
    "Listed",
    "Plan",
    "RowState",
    "RunMode",
    "RunState",
    "Wanted",
    "agree",
    "as_seen",
    "cancel",
    "decline",
    "form_of",
    "keep_limit",
    "leave_alone",
    "plan",
    "planned",
    "request",
    "turn",
]
