"""Why nobody has taken it, and what happens next: one sentence each, from the row's own facts. No Streamlit.

What strangers named stands in some of them, so they are for `st.dataframe`, `st.code` and `said()` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.screens.events_words import moment
from dashboard.words import many, named, span, what
from ledger.payload import shown
from ledger.views.stuck_rows import COUNTED_MAX, Row, Sizes, StuckEvent, StuckSend, Surroundings

ERROR_CHARACTERS = 200  # of the last error, in a list
TRIED_OUT = "An engineer or admin tries it again, or leaves it."
FEW_S = 60.0  # workers let go within this what waited behind an event that a person set aside


@dataclass(frozen=True, slots=True)
class Pace:
    """From the configuration: how often leases are swept, and from when due work waits too long."""

    sweep_s: float
    waiting_s: float


def stands(sizes: Sizes, around: Surroundings, pace: Pace) -> str:
    """The page's answer, as sentences."""
    told = [_stuck(sizes.stuck)]
    if sizes.expired and around.running and not _resting(around):
        verb = "frees itself" if sizes.expired == 1 else "free themselves"
        told.append(f"{counted(sizes.expired)} {verb} within {pace.sweep_s:g} s.")
    if sizes.waiting:
        told.append(f"{counted(sizes.waiting)} {'waits' if sizes.waiting == 1 else 'wait'} too long.")
    return " ".join(told)


def _stuck(n: int) -> str:
    if not n:
        return "Nothing is stuck."
    if n > COUNTED_MAX:
        return f"More than {COUNTED_MAX:,} pieces of work are stuck."
    return f"{many(n, 'piece of work is', 'pieces of work are')} stuck."


def counted(n: int) -> str:
    return f"{n:,}" if n <= COUNTED_MAX else f"More than {COUNTED_MAX:,}"


def thing(row: Row) -> str:
    """What it is, as its provider or we call it."""
    if isinstance(row, StuckSend):
        return f"✉ {what(row.kind)}" + (f": {shown(row.about)}" if row.about else "")
    key = shown(row.event_key)
    return key if key.startswith(shown(row.type)) else f"{shown(row.type)} {key}"


def source(row: Row) -> str:
    return shown(row.provider if isinstance(row, StuckSend) else row.source)


def age(row: Row) -> str:
    """Since it was accepted or proposed."""
    return span(_ago(row.created_at if isinstance(row, StuckSend) else row.accepted_at, row.now))


def tries(row: Row) -> str:
    if isinstance(row, StuckSend):
        return f"{row.attempts:,}" if row.attempts else "–"
    return f"{row.attempts} of {row.attempts_max}" if row.attempts else "–"


def worker(row: Row) -> str:
    return shown(row.worker) if row.worker else "–"


def why(row: Row, around: Surroundings) -> str:
    """Why nobody has taken it."""
    if row.lease_until is not None:
        return _held(row, row.lease_until)
    return _why_send(row, around) if isinstance(row, StuckSend) else _why_event(row, around)


def happens_next(row: Row, around: Surroundings, pace: Pace) -> str:
    """What happens next, and by whom."""
    if row.lease_until is not None:
        return _taken_back(row, row.lease_until, around, pace)
    return _next_send(row, around) if isinstance(row, StuckSend) else _next_event(row, around)


# ── In a worker's hands ───────────────────────────────────────────────────────────────────────────────


def _held(row: Row, lease_until: datetime) -> str:
    seen = f"{span(_ago(row.worker_seen_at, row.now))} ago" if row.worker_seen_at else ""
    if lease_until >= row.now:
        return f"Its worker gave a sign {seen}." if seen else "Its worker is not known any more."
    return f"Lease ended {span(_ago(lease_until, row.now))} ago{f'; last sign {seen}' if seen else ''}."


def _taken_back(row: Row, lease_until: datetime, around: Surroundings, pace: Pace) -> str:
    if lease_until >= row.now:
        return f"Lease ends in {span(_ago(row.now, lease_until))}; then a sweep takes it."
    if not around.running:
        return "No worker runs, so no sweep comes. Start one."
    if resting := _resting(around):
        return f"After an outage, its worker has until {moment(resting, row.now)} UTC."
    return f"The next sweep takes it within {pace.sweep_s:g} s{_then(row)}."


def _then(row: Row) -> str:
    if isinstance(row, StuckSend):
        return "; then to Review, if nobody can know" if row.started else ""
    last = row.attempts >= row.attempts_max and row.mode == "first"
    return " and sets it aside" if last else ""


# ── Events ────────────────────────────────────────────────────────────────────────────────────────────


def _why_event(row: StuckEvent, around: Surroundings) -> str:
    if row.state == "failed":
        return _why_aside(row)
    if row.waits_behind:
        return f"Waits for an earlier event: {row.waits_behind} ({shown(row.ahead_key) or 'gone'})."
    if row.due_at is not None and row.due_at > row.now:
        return f"Tried {tries(row)} times." if row.attempts else "Put off, without a try that counts."
    return _not_taken(row, around)


def _why_aside(row: StuckEvent) -> str:
    if row.by_hand is not None:
        words = f" “{shown(row.by_hand.why)}”" if row.by_hand.why else ""
        return f"{named(row.by_hand.who)} set it aside at {moment(row.by_hand.at, row.now)} UTC.{words}"
    error = f": {shown(row.last_error.splitlines()[0][:ERROR_CHARACTERS])}" if row.last_error else "."
    return f"Failed {tries(row)} times{error}" if row.attempts else f"Set aside before a try{error}"


def _not_taken(row: StuckEvent, around: Surroundings) -> str:
    kind = shown(row.type)
    if not around.running:
        return "No worker runs."
    if row.takers is None:
        return f"No running worker handles {kind}."
    if not row.takers.running:
        until = f" until {moment(row.takers.last_at, row.now)} UTC" if row.takers.last_at else ""
        return f"No running worker handles {kind}. {shown(row.takers.last)} did{until}."
    if row.alone:
        return "It runs with nothing beside it, and no worker was free of other work."
    return f"Due for {span(_ago(row.due_at, row.now))}; no worker has come to it."


def _next_event(row: StuckEvent, around: Surroundings) -> str:
    if row.state == "failed":
        return "Nobody works on it until a person says so." if row.by_hand else TRIED_OUT
    if row.waits_behind:
        return _next_in_line(row)
    if row.due_at is not None and row.due_at > row.now:
        return f"Next try at {moment(row.due_at, row.now)} UTC."
    if around.running and row.takers is not None and row.takers.running:
        return (
            "A worker takes it when it has nothing else." if row.alone else "The next free worker takes it."
        )
    if row.takers is None and around.running:
        return "The first worker with a handler takes it."
    return "The first worker that starts and handles it takes it."


def _next_in_line(row: StuckEvent) -> str:
    stands = {"processing": "is in hand", "pending": "waits itself"}.get(row.ahead_state)
    if stands is None:
        return f"Workers let it go within {FEW_S:g} s."
    return f"It goes when {row.waits_behind} has ended, which {stands}."


# ── Sends ─────────────────────────────────────────────────────────────────────────────────────────────


def _why_send(row: StuckSend, around: Surroundings) -> str:
    said = f" Last: {shown(row.last_error)}" if row.last_error else ""
    if row.state == "failed":
        return f"Its time was over before a try got through.{said}"
    if around.held:
        return f"Nothing is sent: {shown(around.held)}"
    if pause := around.pauses.get(row.account):
        return f"Account {shown(row.account)} is paused: {shown(pause.reason)}"
    if not around.running:
        return "No worker runs."
    return f"Due for {span(_ago(row.due_at, row.now))}; no worker has come to it.{said}"


def _next_send(row: StuckSend, around: Surroundings) -> str:
    if row.state == "failed":
        return "Nothing goes out, unless a person tries again."
    if around.held:
        return "A person releases it: nottwice release."
    if pause := around.pauses.get(row.account):
        return f"One send tries the account at {moment(pause.paused_until, row.now)} UTC."
    if not around.running:
        return "The first worker that starts takes it."
    return f"A worker takes it, or it is given up at {moment(row.retry_until, row.now)} UTC."


def _resting(around: Surroundings) -> datetime | None:
    """Until when nothing is taken back, after an outage."""
    return around.resume_at if around.resume_at is not None and around.resume_at > around.now else None


def _ago(at: datetime | None, now: datetime) -> float:
    return max(0.0, (now - at).total_seconds()) if at is not None else 0.0
