"""What a repeat may send: an action that has gone its way, with its stored content, or what a handler proposed anew.

The same questions are asked when a list is made, before a second person agrees, and with the row locked before it goes
out: has it changed since it was listed, did evidence come, is it still the newest of its key, is its content kept?
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from ledger.database import Transaction
from ledger.records import Role
from ledger.records.reprocess import Listed

SEES_RECIPIENTS = frozenset({Role.SUPPORT, Role.AUDITOR, Role.ADMIN})
UNKNOWN = "It does not exist."

ACTIONS = """
SELECT a.id AS action_id, a.version, a.namespace, a.kind AS what, a.action_key AS key, a.state, a.content_digest,
       nottwice.last_evidence(a.id) AS evidence, {recipients}
       coalesce(nottwice.why_not_sent_again(a.id, CAST(:once_ever AS text[])),
                CASE WHEN a.send_before <= now() THEN 'It is too late for it (send_before): it is not sent after that.' END,
                CASE WHEN a.content_gone THEN 'Its content is no longer kept ([retention] action_contents_days).' END, '') AS refusal
FROM nottwice.actions a WHERE a.id = ANY (CAST(:ids AS bigint[])) ORDER BY a.id
"""
FINDINGS = """
SELECT f.id AS finding_id, coalesce(a.version, 0) AS version, f.namespace, f.kind AS what, f.action_key AS key, f.found AS state,
       f.content_digest, nottwice.last_evidence(a.id) AS evidence, {recipients}
       coalesce(nottwice.why_finding_not_sent(f.id, CAST(:once_ever AS text[])), '') AS refusal
FROM nottwice.reprocess_findings f LEFT JOIN nottwice.actions a ON a.id = f.action_id
WHERE f.id = ANY (CAST(:ids AS bigint[])) ORDER BY f.id
"""
SHOWN = {
    ACTIONS: "(SELECT c.recipients FROM nottwice.action_contents c WHERE c.action_id = a.id) AS recipients,",
    FINDINGS: "f.recipients,",
}


def actions_to_repeat(
    tx: Transaction, ids: Sequence[int], once_ever: Collection[str], role: Role
) -> tuple[Listed, ...]:
    """These actions, each with why it may not go out again."""
    rows = _rows(tx, ACTIONS, ids, once_ever, role)
    known = {row.action_id for row in rows}
    return (*rows, *(Listed(UNKNOWN, 0, action_id=n, exists=False) for n in ids if n not in known))


def findings_to_repeat(
    tx: Transaction, ids: Sequence[int], once_ever: Collection[str], role: Role
) -> tuple[Listed, ...]:
    """These findings of earlier runs, each with why it may not go out."""
    rows = _rows(tx, FINDINGS, ids, once_ever, role)
    known = {row.finding_id for row in rows}
    return (*rows, *(Listed(UNKNOWN, 0, finding_id=n, exists=False) for n in ids if n not in known))


def _rows(
    tx: Transaction, sql: str, ids: Sequence[int], once_ever: Collection[str], role: Role
) -> tuple[Listed, ...]:
    shown = SHOWN[sql] if role in SEES_RECIPIENTS else ""
    rows = tx.all(sql.format(recipients=shown), ids=list(ids), once_ever=list(once_ever))
    return tuple(_listed(row) for row in rows)


def _listed(row: sa.Row[Any]) -> Listed:
    values = row._asdict()
    recipients = values.pop("recipients", None)
    shown = None if recipients is None else tuple(recipients)
    return Listed(**(values | {"content_digest": bytes(row.content_digest)}), recipients=shown)


def why_not_now(tx: Transaction, row: sa.Row[Any]) -> str:
    """Why a row of a running run may not go out, asked with its action locked; empty: it may.

    Two people agreed to these very versions, so the word about kinds that go out once ever was said by then.
    """
    changed = tx.first(CHANGED.format(which="w.id = :id"), id=row.id)
    if changed is not None:
        return "It changed, or something was observed about it, since it was asked for."
    sql, n = (ACTIONS, row.action_id) if row.finding_id is None else (FINDINGS, row.finding_id)
    (listed,) = _rows(tx, sql, [n], (), Role.VIEWER)
    return listed.refusal


# Those of a run's rows that are no longer what was listed: each version of an action is another one.
CHANGED = """
SELECT coalesce('Finding ' || f.id, 'Send ' || a.id) || ' (' || coalesce(f.kind, a.kind) || ')' AS called
FROM nottwice.reprocess_rows w
LEFT JOIN nottwice.reprocess_findings f ON f.id = w.finding_id
LEFT JOIN nottwice.actions a ON a.id = coalesce(w.action_id, f.action_id)
WHERE {which} AND w.state = 'waiting'
  AND (f.content_gone OR coalesce(a.version, 0) <> w.seen_version
       OR nottwice.last_evidence(a.id) <> w.seen_evidence)
ORDER BY w.id LIMIT 1
"""


def changed_since_listed(tx: Transaction, run_id: int) -> str:
    """In words what is no longer as it was when the run was asked for, or may not go out by now; empty: all may."""
    row = tx.first(CHANGED.format(which="w.run_id = :run_id"), run_id=run_id)
    if row is not None:
        return f"{row.called} changed, or something was observed about it, since it was asked for."
    refused = next((one for one in _waiting(tx, run_id) if one.refusal), None)
    return f"{refused.called} ({refused.what}): {refused.refusal}" if refused else ""


WAITING = "SELECT action_id, finding_id FROM nottwice.reprocess_rows WHERE run_id = :run_id AND state = 'waiting' ORDER BY id"


def _waiting(tx: Transaction, run_id: int) -> tuple[Listed, ...]:
    """The rows that are not begun, as they would be listed now. The word about kinds that go out once ever was said."""
    rows = tx.all(WAITING, run_id=run_id)
    stored = [row.action_id for row in rows if row.action_id is not None]
    anew = [row.finding_id for row in rows if row.finding_id is not None]
    return (*_rows(tx, ACTIONS, stored, (), Role.VIEWER), *_rows(tx, FINDINGS, anew, (), Role.VIEWER))
