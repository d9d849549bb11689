"""What `nottwice reprocess` takes in and says: what was typed as a selection, a list and a run as lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ledger.audit.words import span
from ledger.errors import Misconfigured
from ledger.kept.readable import readable
from ledger.records.reprocess import Asked, Listed, Plan, RunMode, RunState, Wanted
from ledger.settings import Settings
from ledger.states import EventState
from ledger.terminal import plain
from ledger.views.reprocess import Run

LINES_MAX = 50
TEXT_CHARACTERS_MAX = 200_000
DIGEST_DIGITS = 12
GOES = {
    RunMode.RECOMPUTE: "Would be worked again",
    RunMode.PREVIEW: "Would be worked again and undone",
    RunMode.REPEAT: "Would go out again, each with a new key",
}
WAITS = "waits for a second person"


def wanted_of(
    mode: str,
    events: Sequence[int] | None,
    namespace: str,
    source: str,
    type_: str,
    since: str,
    until: str,
    state: str,
    error: str,
    everything: bool,
    actions: Sequence[int] | None,
    findings: Sequence[int] | None,
    even_once_ever: bool,
) -> Wanted:
    """What was typed. Raises Misconfigured, which says what may stand there."""
    run_mode = _one_of(mode, RunMode, "--mode")
    of_events = (events, namespace, source, type_, since, until, state, error)
    if run_mode is RunMode.REPEAT and (any(of_events) or everything or not (actions or findings)):
        raise Misconfigured(
            "What is repeated is chosen one by one: --action NUMBER or --finding NUMBER, and no events."
        )
    if run_mode is not RunMode.REPEAT and (actions or findings or even_once_ever):
        raise Misconfigured(
            "--action, --finding and --even-once-ever are for --mode repeat: nothing else sends anything."
        )
    if run_mode is not RunMode.REPEAT and any(of_events) == everything:
        raise Misconfigured(_which(of_events))
    begin, end = span(since, until)
    return Wanted(
        run_mode,
        tuple(dict.fromkeys(events or ())),
        namespace,
        source,
        type_,
        _one_of(state, EventState, "--state").value if state else "completed",
        error,
        begin,
        end,
        tuple(dict.fromkeys(actions or ())),
        tuple(dict.fromkeys(findings or ())),
        even_once_ever,
    )


OF_EVENTS = ("event", "namespace", "source", "type", "since", "until", "state", "error")


def _which(of_events: Sequence[object]) -> str:
    """Neither was given, or both."""
    given = next((f"--{name}" for name, typed in zip(OF_EVENTS, of_events, strict=True) if typed), "")
    both = f"--all and {given} were both given. " if given else ""
    return f"{both}Say which events (--event, --source, --since …), or --all."


def _one_of(typed: str, known: Any, option: str) -> Any:
    if typed in {member.value for member in known}:
        return known(typed)
    words = ", ".join(member.value for member in known)
    raise Misconfigured(f"{option} {plain(typed, 40)} is not known. One of: {words}.")


# ── A list ────────────────────────────────────────────────────────────────────────────────────────────


def plan_lines(plan: Plan, settings: Settings) -> Iterator[str]:
    """The rows, what stands, and how many of them go."""
    for row in plan.rows[:LINES_MAX]:
        yield row_line(row)
    if len(plan.rows) > LINES_MAX:
        yield f"… and {len(plan.rows) - LINES_MAX:,} more (--json names all)."
    if plan.standing:
        stands = ", ".join(f"{one.actions:,} {plain(one.kind, 60)} {one.state}" for one in plan.standing)
        yield f"Their actions stand, and none goes out again: {stands}."
    if not plan.rows:
        yield "No event fits what was asked for."
        return
    going, all_ = len(plan.going), len(plan.rows)
    of = f"{going:,}" if going == all_ else f"{going:,} of {all_:,}"
    pace = settings.reprocess.pace_per_s
    yield f"{GOES[plan.wanted.mode]}: {of}, {pace:g} in a second. List {short(plan)}."


def row_line(row: Listed) -> str:
    if not row.exists:
        return f"{row.name}: would be skipped: {row.refusal}"
    parts = [plain(row.namespace, 60), plain(row.what, 80), plain(row.key, 80)]
    to = f"; to {', '.join(plain(one, 80) for one in row.recipients)}" if row.recipients else ""
    skipped = f"; would be skipped: {row.refusal}" if row.refusal else ""
    return f"{row.name}: {', '.join(part for part in parts if part)}; {row.state}{to}{skipped}"


def plan_json(plan: Plan) -> Iterator[str]:
    for row in plan.rows:
        kind, _, number = row.name.partition(" ")
        facts = {"namespace": row.namespace, "what": row.what, "key": row.key, "state": row.state}
        shown = {"recipients": row.recipients} if row.recipients is not None else {}
        yield _json({kind: int(number), **facts, **shown, "skipped": row.refusal or None})
    stands = [{"kind": one.kind, "state": one.state, "actions": one.actions} for one in plan.standing]
    yield _json({"mode": plan.wanted.mode, "going": len(plan.going), "list": plan.digest.hex(), "stands": stands})  # fmt: skip


def how_to_go(plan: Plan) -> str:
    if not plan.rows:
        return "There is nothing to do."
    if not plan.going:
        return "Nothing on this list can be done."
    second = " It takes a second person, who agrees to exactly this list." if plan.wanted.mode is RunMode.REPEAT else ""  # fmt: skip
    return f"To ask for it, say the same with --go --list {short(plan)} --as EMAIL --reason TEXT.{second}"


def short(plan: Plan) -> str:
    return plan.digest.hex()[:DIGEST_DIGITS]


def asked(asked: Asked, plan: Plan) -> str:
    if asked.state is RunState.WAITING:
        return (
            f"Run {asked.run_id} waits for a second person: {asked.second_because}. Look: nottwice reprocess show {asked.run_id}. "
            f"Agree: nottwice reprocess approve {asked.run_id} --as EMAIL --reason TEXT."
        )
    return f"Run {asked.run_id} begins: {len(plan.going):,} rows. Watch: nottwice reprocess show {asked.run_id} --wait."


def asked_json(asked: Asked) -> str:
    return _json({"run": asked.run_id, "state": asked.state, "second_because": asked.second_because or None})


# ── A run ─────────────────────────────────────────────────────────────────────────────────────────────


def run_line(run: Run) -> str:
    """One line: what, whose, how far."""
    far = f"{run.over:,} of {run.rows:,}" + (f", {run.failed:,} failed" if run.failed else "")
    far += f", {run.skipped:,} skipped" if run.skipped else ""
    whose = f"{plain(run.asked_by, 40)}" + (f", with {plain(run.agreed_by, 40)}" if run.agreed_by else "")
    return (
        f"{run.id}  {run.asked_at:%Y-%m-%d %H:%M:%S}  {run.mode}  {state_words(run)}  {far}  {whose}  "
        f"{plain(run.selection, 120)} · {plain(run.why, 120)}"
    )


def state_words(run: Run) -> str:
    if run.state is not RunState.WAITING:
        return f"{run.state} by {plain(run.stopped_by, 40)}" if run.stopped_by else str(run.state)
    if run.has_expired:
        return "was waited for too long: ask for it anew"
    return f"{WAITS} until {run.expires_at:%H:%M:%S} UTC"


def run_json(run: Run) -> str:
    """Only what is needed of it: names of people, never addresses."""
    counts = {
        name: getattr(run, name) for name in ("rows", "waiting", "working", "done", "skipped", "failed")
    }
    people = {
        "asked_by": run.asked_by,
        "agreed_by": run.agreed_by or None,
        "stopped_by": run.stopped_by or None,
    }
    times = {
        "asked_at": run.asked_at.isoformat(),
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
    }
    about = {
        "run": run.id,
        "mode": run.mode,
        "state": run.state,
        "expired": run.has_expired,
        "list": run.list_digest,
    }
    return _json({**about, "selection": run.selection, "why": run.why, **people, **times, **counts})


def text_lines(body: bytes) -> Iterator[str]:
    """What a finding would send, for a terminal: laid out, and nothing in it steers."""
    for line in readable(body, most=TEXT_CHARACTERS_MAX).text.splitlines():
        yield "".join(c if c.isprintable() else "\ufffd" for c in line)


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=True, default=str)
