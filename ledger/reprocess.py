"""Events worked again and actions sent again, whole: plan a list, ask for it, agree to it, cancel it; and the worker's turn.

`recompute` works local results out again and lets nothing out of the house; `repeat` sends chosen actions once more, by two
people; `preview` runs the handlers and undoes what they did. What each step guarantees stands in the rooms: the list in
`reprocess_planning.py` and `reprocess_repeats.py`, the people in `reprocess_requests.py`, the turn in `reprocess_running.py`
with `reprocess_events.py` and `reprocess_sends.py`, the results in `reprocess_stages.py` and `reprocess_results.py`.
"""

from __future__ import annotations

from ledger.records_reprocess import Asked, Found, Listed, Plan, RowState, RunMode, RunState, Wanted
from ledger.reprocess_planning import plan
from ledger.reprocess_requests import agree, cancel, decline, form_of, request
from ledger.reprocess_running import turn

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
    "cancel",
    "decline",
    "form_of",
    "plan",
    "request",
    "turn",
]
