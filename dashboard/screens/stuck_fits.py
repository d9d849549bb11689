"""Which act fits which row, for which role, and in which words. No Streamlit."""

from __future__ import annotations

from typing import Literal

from ledger.decisions.deciding import DECIDERS
from ledger.events import by_hand, by_two, recovery
from ledger.records import Role
from ledger.views.stuck_rows import Row, StuckSend

Deed = Literal["again", "aside", "back"]
DEEDS: tuple[Deed, ...] = ("again", "aside", "back")
AUDITED: dict[Deed, str] = {"again": by_two.TRY_AGAIN, "aside": by_hand.SET_ASIDE, "back": by_hand.HAND_BACK}
PICK = "Pick rows to see what can be done with them."
SENDS_ONLY = "Pick a send to try it again; trying events again, setting them aside or handing them back is for engineers and admins."
READ_ONLY = "You can read this. Engineer or admin tries events again, sets them aside or hands them back."
CONSEQUENCE: dict[Deed, str] = {
    "again": "The handler runs again. E-mails that are out are not sent again: each has its key.",
    "aside": "Nobody works on it until a person says so. What waits behind it in its order goes on within a minute.",
    "back": "It leaves its worker's hands and is due at once. That worker can complete nothing of it any more.",
}
CONSEQUENCE_OF_SENDS = (
    "A send goes out in its stored content, with its own key; no try of it can have gone out before."
)
ICONS: dict[Deed, str] = {
    "again": ":material/replay:",
    "aside": ":material/inventory_2:",
    "back": ":material/undo:",
}


def why_not(row: Row, deed: Deed, role: Role) -> str:
    """Why this cannot be done with this row by this role; "": it can."""
    if isinstance(row, StuckSend):
        return _why_not_send(row, deed, role)
    if role not in recovery.REQUEUERS:
        return "Engineer or admin does this with events."
    if deed == "again":
        return "" if row.state == "failed" else "It is not set aside."
    if deed == "back":
        return "" if row.state == "processing" else "No worker has it in hand."
    if row.state == "failed":
        return "It is set aside already."
    return "" if row.mode == "first" else "A person asked for it to be worked again: cancel that run instead."


def _why_not_send(row: StuckSend, deed: Deed, role: Role) -> str:
    if deed != "again" or row.state != "failed":
        return "It is a send: what can be decided about it is in Review."
    return "" if role in DECIDERS else "Support or admin decides sends."


def may_act(role: Role) -> bool:
    return role in recovery.REQUEUERS | DECIDERS


def may_do(role: Role) -> str:
    """What this role may do with what is stuck, in a sentence, before anything is picked."""
    if role in recovery.REQUEUERS:
        return PICK
    return SENDS_ONLY if role in DECIDERS else READ_ONLY


def way_there(role: Role) -> str:
    """The link to what is stuck, named by what this role can do there."""
    if role in recovery.REQUEUERS:
        return "See what is stuck"
    return "See what is stuck, try sends again" if role in DECIDERS else "Read what is stuck"


def label(deed: Deed, n: int) -> str:
    """`Try 2 again`, `Try it again`."""
    them = "it" if n == 1 else f"{n}"
    return {"again": f"Try {them} again", "aside": f"Set {them} aside", "back": f"Hand {them} back"}[deed]


def done_words(deed: Deed) -> str:
    return {"again": "tried again", "aside": "set aside", "back": "handed back"}[deed]
