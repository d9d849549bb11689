"""Words of the Reprocess page that more than one of its files says. No Streamlit, no text from outside."""

from __future__ import annotations

from dashboard.colours import State
from dashboard.words import clock, many, named
from ledger.records.reprocess import RowState, RunMode, RunState
from ledger.views.reprocess import Row, Run

MODES = {
    RunMode.RECOMPUTE: "Work it out again",
    RunMode.PREVIEW: "Try it out, keep nothing",
    RunMode.REPEAT: "Send again",
}
CAPTIONS = {
    RunMode.RECOMPUTE: "The handler runs again and our own results are replaced. No e-mail, ticket or refund goes out; "
    "those already out stay.",
    RunMode.REPEAT: "You pick each send. It goes out with a new key, so whoever already has it gets it twice. "
    "A second person must agree.",
}
STATES: dict[str, State] = {
    "Waits for a second person": "person",
    "Under way": "working",
    "Done": "done",
    "Stopped": "waiting",
    "Not agreed": "waiting",
    "Nobody agreed in time": "waiting",
}
RESULTS: dict[str, State] = {
    "Not begun": "waiting",
    "Under way": "working",
    "Done": "done",
    "Left alone": "waiting",
    "Failed": "broken",
}
ROW_STATES = {
    RowState.WAITING: "Not begun",
    RowState.WORKING: "Under way",
    RowState.DONE: "Done",
    RowState.SKIPPED: "Left alone",
    RowState.FAILED: "Failed",
}


def state(run: Run) -> str:
    match run.state:
        case RunState.RUNNING:
            return "Under way"
        case RunState.DONE:
            return "Done"
        case RunState.CANCELLED:
            return "Stopped"
        case RunState.DECLINED:
            return "Not agreed"
        case _:
            return "Nobody agreed in time" if run.has_expired else "Waits for a second person"


def is_asked(run: Run) -> bool:
    """A second person may answer now."""
    return run.state is RunState.WAITING and not run.has_expired


def has_begun(run: Run) -> bool:
    """Whether any row may have a result by work, not only by being left out from the first."""
    return run.state in (RunState.RUNNING, RunState.DONE, RunState.CANCELLED)


def things(mode: RunMode, n: int) -> str:
    """`1 result`, `3 e-mails`."""
    return many(n, "e-mail") if mode is RunMode.REPEAT else many(n, "result")


def to_go(run: Run) -> int:
    """How many rows are, or were, to be carried out."""
    return run.rows - run.skipped


def stands(run: Run) -> str:
    """The heading of one run's page, as a sentence."""
    thing = things(run.mode, to_go(run))
    match state(run):
        case "Waits for a second person":
            return f"{thing}: a second person must agree first."
        case "Under way":
            return f"{run.over:,} of {many(run.rows, 'row has its', 'rows have their')} result."
        case "Done":
            return f"It is done: {_done(run)}."
        case "Stopped":
            return f"It was stopped: {run.done:,} are done and stay done."
        case "Not agreed":
            return "A second person did not agree. Nothing was done."
        case _:
            return "Nobody agreed in time. Nothing was done."


def _done(run: Run) -> str:
    verb = {RunMode.RECOMPUTE: "worked out again", RunMode.PREVIEW: "tried out", RunMode.REPEAT: "sent again"}
    left = [f"{run.skipped:,} left alone"] if run.skipped else []
    failed = [f"{run.failed:,} failed"] if run.failed else []
    return ", ".join([f"{run.done:,} {verb[run.mode]}", *left, *failed])


def results(run: Run) -> str:
    """By result: what is done, what was left alone, what failed, and what is to come."""
    ahead = "not begun" if run.state in (RunState.CANCELLED, RunState.DECLINED) else "to come"
    parts = [
        f"{n:,} {word}"
        for n, word in (
            (run.done, "done"),
            (run.skipped, "left alone"),
            (run.failed, "failed"),
            (run.working, "under way"),
            (run.waiting, ahead),
        )
        if n
    ]
    return " · ".join(parts)


def stop(run: Run) -> str:
    """What stopping does, to this run as it is now."""
    now = "Nothing is under way." if not run.working else "The one under way finishes."
    if run.working > 1:
        now = f"The {run.working:,} under way finish."
    return f"{now} {run.done:,} are done and stay done. {run.waiting:,} will not start."


def whose(run: Run) -> str:
    """Who asked for it and who agreed, as names that are no markup."""
    agreed = f", {named(run.agreed_by)} agreed" if run.agreed_by else ""
    stopped = f", {_stopped(run)} {named(run.stopped_by)}" if run.stopped_by else ""
    return f"{named(run.asked_by)} asked at {clock(run.asked_at, run.now)} UTC{agreed}{stopped}."


def _stopped(run: Run) -> str:
    return "declined by" if run.state is RunState.DECLINED else "stopped by"


AGREES = {
    RunMode.RECOMPUTE: "Engineer or admin",
    RunMode.PREVIEW: "Engineer or admin",
    RunMode.REPEAT: "Support or admin",
}


def number(row: Row) -> str:
    """`Event 12`, `Send 7`, `Finding 3`: what a row is about."""
    numbers = {"Event": row.event_id, "Send": row.action_id, "Finding": row.finding_id}
    return next(f"{word} {n}" for word, n in numbers.items() if n is not None)


def came_of(row: Row) -> str:
    """What a row that is done left behind, in our own words."""
    if row.made_action_id is not None:
        return f"Send {row.made_action_id}: {(row.sent or '').replace('_', ' ')}"
    found = ((row.found_new, "would be new"), (row.found_differs, "would differ"))
    return ", ".join(f"{n:,} {word}" for n, word in found if n)


def sentence(mode: RunMode, going: int, staying: int, people: int) -> str:
    """What will happen, before anybody presses."""
    stay = f", {staying:,} {'stays as it is' if staying == 1 else 'stay as they are'}" if staying else ""
    if mode is RunMode.REPEAT:
        to = f" to {many(people, 'person', 'people')}" if people else ""
        will = f"{many(going, 'e-mail')} will go{to or ' out'}"
        return f"**{will}**{stay}." if stay else f"**{will}.**"
    will = f"{many(going, 'result')} will be worked out again"
    return f"{will}{stay}. **Nothing will be sent.**"


def names_the_act(mode: RunMode, going: int, people: int) -> str:
    """A button that names the act."""
    if mode is RunMode.REPEAT:
        to = f" to {many(people, 'person', 'people')}" if people else ""
        return f"Ask a second person: {many(going, 'e-mail')}{to}"
    return f"Work out {many(going, 'result')} again"
