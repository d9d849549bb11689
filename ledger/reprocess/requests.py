"""A run asked for by a named person: its list is frozen with the request, and both with their audit row in one transaction.

The database holds it as well (sql/0028): no run without its record, and no row of a list from a later transaction.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from ledger import audit
from ledger.database import Transaction
from ledger.errors import AlreadyDecided, Incomplete, NotAllowed, NotNow
from ledger.records import Act, Person, Role
from ledger.records.reprocess import Asked, Plan, RunMode, RunState
from ledger.settings.processes import ReprocessSettings

FORMS = UUID("6f1e6a0c-41a9-4f0d-9f0f-6f3f0f7f2a55")  # the name space of one-time ids
EVENT_ASKERS = frozenset({Role.ENGINEER, Role.ADMIN})
ASKERS = {RunMode.REPEAT: EVENT_ASKERS | {Role.SUPPORT}}
IN_WORDS = {
    RunMode.PREVIEW: "preview a recompute with its handlers",
    RunMode.RECOMPUTE: "recompute local results",
    RunMode.REPEAT: "repeat external actions",
}

INSERT = """
INSERT INTO nottwice.reprocess_runs (mode, state, selection, why, requested_by, requested_role, row_count, list_digest, needs_second,
                                     expires_at, pace_per_s, under_way_max, next_at, begun_at)
VALUES (:mode, :state, :selection, :why, :person, :role, :rows, :digest, :needs_second,
        CASE WHEN :needs_second THEN now() + make_interval(secs => :expires_s) END, :pace_per_s, :under_way_max,
        CASE WHEN :state = 'running' THEN now() END, CASE WHEN :state = 'running' THEN now() END)
RETURNING id
"""
INSERT_ROWS = """
INSERT INTO nottwice.reprocess_rows (run_id, event_id, action_id, finding_id, seen_version, seen_evidence, content_digest,
                                     state, reason, ended_at)
SELECT :run_id, r.event_id, r.action_id, r.finding_id, r.version, r.evidence, r.digest,
       CASE WHEN r.refusal = '' THEN 'waiting' ELSE 'skipped' END, r.refusal, CASE WHEN r.refusal <> '' THEN now() END
FROM unnest(CAST(:event_ids AS bigint[]), CAST(:action_ids AS bigint[]), CAST(:finding_ids AS bigint[]), CAST(:versions AS bigint[]),
            CAST(:evidence AS bigint[]), CAST(:digests AS bytea[]), CAST(:refusals AS text[])) WITH ORDINALITY
     AS r(event_id, action_id, finding_id, version, evidence, digest, refusal, place)
ORDER BY r.place
"""


def request(tx: Transaction, plan: Plan, act: Act, settings: ReprocessSettings, *, expires_s: float) -> Asked:
    """Freeze the list as a run in this person's name; what needs no second person begins at once.

    A repeat always needs one; so does what takes the person over `second_person_above` rows within an hour. Raises
    NotAllowed, Incomplete without a reason, NotNow for a list of which nothing can be done, AlreadyDecided.
    """
    mode = plan.wanted.mode
    if act.person.role not in ASKERS.get(mode, EVENT_ASKERS):
        raise NotAllowed(f"You can read this. {roles(ASKERS.get(mode, EVENT_ASKERS))} may {IN_WORDS[mode]}.")
    if not act.reason.strip():
        raise Incomplete("Nothing was begun. Please say why.")
    _refuse_twin(
        tx, plan, act
    )  # first: of a list that was asked for a moment ago, nothing may be left to begin
    if not plan.going:
        raise NotNow("There is nothing on this list that can be done. Nothing was begun.")
    because = _second_because(tx, plan, act.person, settings)
    state = RunState.WAITING if because else RunState.RUNNING
    run_id = int(tx.one(INSERT, **_run(plan, act, state, settings, expires_s)).id)
    detail = f"run {run_id}: {len(plan.going)} rows: {plan.wanted.in_words}"
    audit_id = audit.done(
        tx, act, _asks(mode, because), "reprocess", run_id, version=1, before=None, after=state.value, detail=detail
    )  # fmt: skip
    tx.execute(INSERT_ROWS, run_id=run_id, **_rows(plan))
    return Asked(run_id, state, audit_id, because)


LAST_OF_LIST = """
SELECT coalesce(max(id), 0) AS last FROM nottwice.reprocess_runs
WHERE list_digest = :digest AND (state NOT IN ('waiting', 'running') OR state = 'waiting' AND expires_at <= now())
"""


def form_of(tx: Transaction, plan: Plan, person: Person) -> UUID:
    """The one-time id of a request: the same list asked for twice is one request, until the first one has ended or
    was waited for too long."""
    last = tx.one(LAST_OF_LIST, digest=plan.digest).last
    return uuid5(FORMS, f"{person.id} {plan.digest.hex()} {last}")


OPEN = """
SELECT id, CASE state WHEN 'waiting' THEN 'waits for a second person' ELSE 'is under way' END AS stands
FROM nottwice.reprocess_runs
WHERE list_digest = :digest AND requested_by = :person AND state IN ('waiting', 'running') ORDER BY id DESC LIMIT 1
"""


def _refuse_twin(tx: Transaction, plan: Plan, act: Act) -> None:
    """The same form again is refused, and where its run is still to be carried out, that run is named."""
    try:
        audit.refuse_second_use(tx, act)
    except AlreadyDecided as first:
        run = tx.first(OPEN, digest=plan.digest, person=act.person.id)
        words = f"Run {run.id} asks for exactly this and {run.stands}." if run else str(first)
        raise AlreadyDecided(words, who=first.who, what=first.what, at=first.at, same_form=True) from None


LIMIT = "SELECT nottwice.second_person_above() AS n"  # the database holds a run to it as well


def _second_because(tx: Transaction, plan: Plan, person: Person, settings: ReprocessSettings) -> str:
    if plan.wanted.mode is RunMode.REPEAT:
        return "what goes out cannot be taken back"
    # Held against a second request of the same person at the same moment: together they may be over the number.
    tx.execute("SELECT pg_advisory_xact_lock(hashtextextended(:person, 28))", person=f"reprocess {person.id}")
    asked = tx.one(
        """SELECT coalesce(sum(row_count), 0) AS n FROM nottwice.reprocess_runs
           WHERE requested_by = :person AND requested_at > now() - interval '1 hour' AND NOT needs_second""",
        person=person.id,
    ).n
    above = min(settings.second_person_above, tx.one(LIMIT).n)
    if asked + len(plan.going) <= above:
        return ""
    before = f", and {asked:,} were asked for within the hour" if asked else ""
    return f"these are {len(plan.going):,} events{before}: together more than {above:,}"


def _asks(mode: RunMode, because: str) -> str:
    return f"asked a second person: {IN_WORDS[mode]}" if because else IN_WORDS[mode]


def _run(
    plan: Plan, act: Act, state: RunState, settings: ReprocessSettings, expires_s: float
) -> dict[str, Any]:
    return {
        "mode": plan.wanted.mode.value,
        "state": state.value,
        "selection": plan.wanted.in_words,
        "why": act.reason,
        "person": act.person.id,
        "role": act.person.role.value,
        "rows": len(plan.going),
        "digest": plan.digest,
        "needs_second": state is RunState.WAITING,
        "expires_s": expires_s,
        "pace_per_s": settings.pace_per_s,
        "under_way_max": settings.under_way_max,
    }


def _rows(plan: Plan) -> dict[str, list[Any]]:
    rows = [row for row in plan.rows if row.exists]
    return {
        "event_ids": [row.event_id for row in rows],
        "action_ids": [row.action_id for row in rows],
        "finding_ids": [row.finding_id for row in rows],
        "versions": [row.version for row in rows],
        "evidence": [row.evidence for row in rows],
        "digests": [row.content_digest for row in rows],
        "refusals": [row.refusal for row in rows],
    }


def roles(roles: frozenset[Role]) -> str:
    return " or ".join(sorted(role.value for role in roles)).capitalize()
