"""The action machine under the worker's own login: propose, claim, start, hand back, rescue, expire."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import actions, judging, workers
from ledger.actions import expiry, proposals
from ledger.database import Transaction
from ledger.errors import ContentTooBig, LeaseLost, MayNotStart, Unstorable
from ledger.payload import storable
from ledger.records import (
    ActionLease,
    Email,
    Evidence,
    KindRules,
    NotSent,
    PointsTo,
    Policy,
    Proposal,
    Proposed,
    Refused,
    canonical_json,
    digest_of,
)
from ledger.states import ActionState
from ledger.verdict import verdict
from tests.fix_sends import ACCEPTED, DAY_S, EMAIL, KEYED, KEYLESS, TO_APPROVE, UNKNOWN, Sends

S = ActionState


# ── Propose ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_content_stands(sends: Sends) -> None:
    other = Email(("ann@example.com",), "Your receipt", "Written anew, otherwise.")

    def propose(email: Email) -> Proposed:
        proposal = Proposal("acme", "receipt:1", KEYED, email.content(), email.to)
        return sends.by_worker.run(lambda tx: actions.propose(tx, proposal))

    first, same, changed = propose(EMAIL), propose(EMAIL), propose(other)
    assert (first.created, same.created, changed.created) == (True, False, False)
    assert {first.action_id, same.action_id, changed.action_id} == {first.action_id}
    assert (same.same_content, changed.same_content) == (True, False)
    assert sends.claimed().content == canonical_json(EMAIL.content())


def test_a_kind_to_approve_waits_for_a_person(sends: Sends) -> None:
    sends.proposed(TO_APPROVE)
    assert sends.claim_or_none() is None


def test_namespaces_and_installations_have_their_own_keys(sends: Sends) -> None:
    proposals = [Proposal(n, "same", KEYED, EMAIL.content(), EMAIL.to) for n in ("acme", "globex")]
    ids = [sends.by_worker.run(lambda tx, p=p: actions.propose(tx, p)).action_id for p in proposals]  # type: ignore[misc]
    keys = {sends.row(i).provider_key for i in ids}
    assert len(keys) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9._~-]{1,256}", key) for key in keys)
    digest = digest_of("same")
    assert len({actions.provider_key(uuid4(), "acme", "a", digest, 1) for _ in range(3)}) == 3


def test_the_reference_tells_nobody_the_key(sends: Sends) -> None:
    row = sends.row(sends.proposed())
    assert re.fullmatch(r"nt-[0-9a-f]{16}", row.reference)
    assert row.reference[3:] not in digest_of(row.provider_key).hex()


def test_a_provider_without_keys_gets_none(sends: Sends) -> None:
    row = sends.row(sends.proposed(KEYLESS))
    assert row.provider_key is None
    assert row.reference.startswith("nt-")


def test_too_big_a_content_is_refused(sends: Sends) -> None:
    with pytest.raises(ContentTooBig):
        sends.proposed(email=Email(("a@example.com",), "s", "x" * proposals.CONTENT_BYTES_MAX))


@pytest.mark.parametrize("bad", ["\x00", "\ud83d"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("namespace", {"namespace": "a?"}),
        ("kind", {"rules": replace(KEYED, kind="a?")}),
        ("key", {"action_key": "a?"}),
        ("about", {"about": "a?"}),
        ("recipients[1]", {"recipients": ("a@example.com", "b?@example.com")}),
        ("content.subject", {"content": {"subject": "a?"}}),
        ("content.text", {"content": {"text": "a?"}}),
        ("content.headers.X-Mark", {"content": {"headers": {"X-Mark": "a?"}}}),
        ("names in content.headers", {"content": {"headers": {"X-?": "a"}}}),
        ("content.cc[0].name", {"content": {"cc": [{"name": "a?"}]}}),
    ],
)
def test_a_text_that_nothing_can_hold_is_refused_by_the_name_of_its_field(
    sends: Sends, field: str, changes: dict[str, Any], bad: str
) -> None:
    """And the transaction goes on: it was refused before a statement was sent."""
    given = Proposal("acme", "key", KEYED, EMAIL.content(), EMAIL.to, "INV-1")
    wrong = replace(given, **_with(changes, bad))

    def body(tx: Transaction) -> None:
        with pytest.raises(Unstorable, match=f"^The {re.escape(field)} of") as refused:
            actions.propose(tx, wrong)
        assert isinstance(refused.value, ValueError) and str(refused.value).isprintable()
        actions.propose(tx, given)

    sends.by_worker.run(body)
    assert sends.claimed().action_key == "key"


def _with(value: Any, bad: str) -> Any:
    """The same value with every question mark replaced."""
    if isinstance(value, str):
        return value.replace("?", bad)
    if isinstance(value, dict):
        return {_with(name, bad): _with(member, bad) for name, member in value.items()}
    if isinstance(value, KindRules):
        return replace(value, kind=_with(value.kind, bad))
    return type(value)(_with(member, bad) for member in value)


def test_text_from_outside_is_clean_when_it_was_shown(sends: Sends) -> None:
    hostile = storable("re:\x00\ud800")
    action_id = sends.proposed(key=hostile, email=Email((f"{hostile} <a@example.com>",), hostile, hostile))
    assert sends.claimed().lease.action_id == action_id


def test_python_and_the_database_derive_the_same(sends: Sends) -> None:
    row = sends.row(sends.proposed(key="ключ"))
    recipients = ["a@example.com", "б@example.com"]
    in_sql = sends.rows(
        """SELECT nottwice.provider_key(:namespace, :account, :digest, 1) AS key,
                  nottwice.request_digest('p', 'acc', CAST(:recipients AS text[]), :content) AS request,
                  nottwice.request_digest('p', 'acc', '{}', :content) AS without, i.id FROM nottwice.installation i""",
        namespace="acme", account=row.account, digest=bytes(row.key_digest), recipients=recipients, content=b"{}",
    )[0]  # fmt: skip
    assert (
        in_sql.key
        == row.provider_key
        == actions.provider_key(in_sql.id, "acme", row.account, bytes(row.key_digest), 1)
    )
    assert bytes(in_sql.request) == actions.request_digest("p", "acc", recipients, b"{}")
    assert bytes(in_sql.without) == actions.request_digest("p", "acc", [], b"{}")


# ── Claim ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_longest_due_of_the_asked_accounts_is_claimed_once(sends: Sends) -> None:
    old, new, foreign = (
        sends.proposed(KEYLESS),
        sends.proposed(KEYED),
        sends.proposed(replace(KEYED, account="other")),
    )
    sends.due_now(old)
    assert sends.claimed().lease.action_id == old
    assert sends.claimed().lease.action_id == new
    assert sends.claim_or_none() is None
    assert sends.claimed("other").lease.action_id == foreign


def test_a_paused_account_is_passed_over(sends: Sends) -> None:
    keyed, keyless, second = sends.proposed(KEYED), sends.proposed(KEYLESS), sends.proposed(KEYED)
    assert sends.tried(keyed, NotSent("slow down", "429", retry_after_s=60, pauses=True))
    assert sends.claimed().lease.action_id == keyless
    assert sends.claim_or_none() is None
    sends.sql("UPDATE nottwice.provider_pauses SET paused_until = now() - interval '1 s'")
    assert sends.claimed().lease.action_id in (keyed, second)


def test_after_a_pause_one_send_probes_before_the_others_follow(sends: Sends) -> None:
    ids = [sends.proposed() for _ in range(4)]
    sends.tried(ids[0], NotSent("refused", "connect", pauses=True))
    sends.sql("UPDATE nottwice.provider_pauses SET paused_until = now()")
    probe = sends.claimed()
    assert sends.claim_or_none() is None
    sends.answered(sends.started(probe), ACCEPTED)
    assert sends.claimed() and sends.claimed()
    assert sends.rows("SELECT FROM nottwice.provider_pauses") == []


@pytest.mark.parametrize("change", ["content = '{}'::bytea", "recipients = '{eve@example.com}'"])
def test_a_changed_content_goes_to_a_person_and_not_out(sends: Sends, change: str) -> None:
    broken, whole = sends.proposed(), sends.proposed()
    sends.due_now(broken)
    tamper(sends, broken, change)
    assert sends.claimed().lease.action_id == whole
    assert sends.state(broken) is S.NEEDS_REVIEW
    evidence = sends.rows("SELECT * FROM nottwice.evidence WHERE action_id = :id", id=broken)
    assert "not what was rendered" in evidence[0].found


def tamper(sends: Sends, action_id: int, change: str) -> None:
    sends.sql("ALTER TABLE nottwice.action_contents DISABLE TRIGGER a_rendered_request_never_changes")
    sends.sql(f"UPDATE nottwice.action_contents SET {change} WHERE action_id = :id", id=action_id)
    sends.sql("ALTER TABLE nottwice.action_contents ENABLE TRIGGER a_rendered_request_never_changes")


def test_a_rendered_request_never_changes(sends: Sends) -> None:
    action_id = sends.proposed()
    with pytest.raises(DBAPIError, match="never changed"):
        sends.sql("UPDATE nottwice.action_contents SET subject = 'x' WHERE action_id = :id", id=action_id)


def test_a_renewal_is_for_living_leases_of_ours(sends: Sends) -> None:
    for _ in range(2):
        sends.proposed()
    ours, expired = sends.claimed().lease, sends.claimed().lease
    sends.run_out(expired.action_id)
    foreign = ActionLease(ours.action_id, uuid4())
    renewed = sends.by_worker.run(lambda tx: actions.renew(tx, [ours, expired, foreign], lease_s=600))
    assert renewed == {ours}


# ── Start ─────────────────────────────────────────────────────────────────────────────────────────────


def test_start_writes_the_attempt_before_the_call(sends: Sends) -> None:
    action_id = sends.proposed()
    claimed = sends.claimed()
    attempt = sends.started(claimed)
    (row,) = sends.attempts(action_id)
    assert (row.id, row.number, row.worker, row.answered_at) == (attempt.attempt_id, 1, sends.worker.id, None)
    assert sends.row(action_id).first_started_at == row.started_at


def test_a_lease_starts_one_call(sends: Sends) -> None:
    sends.proposed()
    claimed = sends.claimed()
    sends.started(claimed)
    with pytest.raises(LeaseLost):
        sends.started(claimed)
    with pytest.raises(LeaseLost):
        sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease))


def test_no_start_without_a_living_lease(sends: Sends) -> None:
    action_id = sends.proposed()
    claimed = sends.claimed()
    with pytest.raises(LeaseLost):
        sends.by_worker.run(lambda tx: actions.start(tx, ActionLease(action_id, uuid4())))
    sends.run_out(action_id)
    with pytest.raises(LeaseLost):
        sends.started(claimed)
    assert sends.attempts(action_id) == []


def test_no_start_once_the_key_ran_out_between_claim_and_call(sends: Sends) -> None:
    action_id = sends.proposed()
    sends.tried(action_id, UNKNOWN)
    sends.due_now(action_id)
    claimed = sends.claimed()
    sends.sql("UPDATE nottwice.action_attempts SET started_at = started_at - interval '23 hours 50 minutes'")
    with pytest.raises(MayNotStart, match="key window is over"):
        sends.started(claimed)
    assert sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease)) is S.NEEDS_REVIEW


def test_no_start_once_it_is_proven_sent(sends: Sends) -> None:
    action_id = sends.proposed()
    claimed = sends.claimed()
    sends.sql(
        """INSERT INTO nottwice.evidence (action_id, source, found, points_to, proof, message_id)
           VALUES (:id, 'thread', 'our label', 'sent', true, '<m>')""",
        id=action_id,
    )
    with pytest.raises(MayNotStart):
        sends.started(claimed)
    assert sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease)) is S.SENT
    assert sends.row(action_id).message_id == "<m>"


def test_no_start_with_another_content(sends: Sends) -> None:
    action_id = sends.proposed()
    claimed = sends.claimed()
    tamper(sends, action_id, "content = '{}'::bytea")
    with pytest.raises(MayNotStart):
        sends.started(claimed)
    assert sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease)) is S.APPROVED
    assert sends.claim_or_none() is None
    assert sends.state(action_id) is S.NEEDS_REVIEW


def test_no_start_of_a_keyless_repeat(sends: Sends) -> None:
    action_id = sends.uncertain(KEYLESS)
    sends.sql(
        """UPDATE nottwice.actions SET state = 'approved', due_at = now(), review_since = NULL WHERE id = :id""",
        id=action_id,
    )
    claimed = sends.claimed()
    with pytest.raises(MayNotStart, match="no key"):
        sends.started(claimed)
    assert sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease)) is S.NEEDS_REVIEW


def test_hand_back_burns_nothing(sends: Sends) -> None:
    action_id = sends.proposed()
    claimed = sends.claimed()
    assert sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease)) is S.APPROVED
    row = sends.row(action_id)
    assert (row.attempts, row.failures) == (0, 0)
    assert sends.claimed().lease.action_id == action_id


# ── The sweep ─────────────────────────────────────────────────────────────────────────────────────────


def test_rescue_before_the_start_returns_to_its_place(sends: Sends) -> None:
    action_id = sends.proposed()
    claimed = sends.claimed()
    sends.run_out(action_id)
    (rescued,) = sends.by_worker.run(actions.rescue)
    assert (rescued.id, rescued.state) == (action_id, S.APPROVED)
    with pytest.raises(LeaseLost):
        sends.started(claimed)


@pytest.mark.parametrize(("rules", "state"), [(KEYED, S.APPROVED), (KEYLESS, S.NEEDS_REVIEW)])
def test_rescue_after_the_start_leaves_a_doubt(sends: Sends, rules: KindRules, state: ActionState) -> None:
    action_id = sends.proposed(rules)
    sends.tried(action_id, None)
    assert sends.state(action_id) is state
    assert sends.attempts(action_id)[0].abandoned_at is not None


def test_rescue_leaves_living_leases_alone(sends: Sends) -> None:
    sends.proposed()
    sends.claimed()
    assert sends.by_worker.run(actions.rescue) == []


def test_rescue_takes_no_more_than_asked(sends: Sends) -> None:
    for _ in range(3):
        sends.run_out(sends.proposed())
        sends.claimed()
    sends.sql("UPDATE nottwice.actions SET lease_until = now() - interval '1 s'")
    assert len(sends.by_worker.run(lambda tx: actions.rescue(tx, limit=2))) == 2
    assert len(sends.by_worker.run(lambda tx: actions.rescue(tx, limit=2))) == 1


@pytest.mark.parametrize(("aged_s", "state"), [(DAY_S - 600, S.NEEDS_REVIEW), (DAY_S - 1800, S.APPROVED)])
def test_snd_06_a_key_expires_while_nobody_sends(sends: Sends, aged_s: float, state: ActionState) -> None:
    action_id = sends.proposed()
    sends.tried(action_id, UNKNOWN)
    sends.sql(
        "INSERT INTO nottwice.provider_pauses (account, paused_until, reason) VALUES ('agentmail', now() + interval '1 h', '')"
    )
    sends.aged(action_id, aged_s)
    sends.by_worker.run(actions.expire)
    assert sends.state(action_id) is state
    if state is S.NEEDS_REVIEW:
        attempts, evidence, window = sends.by_worker.run(lambda tx: actions.history(tx, action_id))
        now = sends.rows("SELECT now() AS now")[0].now
        assert "key window is over" in " ".join(verdict(attempts, evidence, window, now).reasons)


def test_snd_06_a_worker_that_was_down_for_days_sends_nothing_by_itself(sends: Sends) -> None:
    doubtful, untried = sends.proposed(), sends.proposed(replace(KEYED, retry_for_s=DAY_S))
    sends.tried(doubtful, None)
    for action_id in (doubtful, untried):
        sends.aged(action_id, 3 * DAY_S)
    claimed = [sends.claimed(), sends.claimed()]
    for one in claimed:
        with pytest.raises(MayNotStart):
            sends.started(one)
        sends.by_worker.run(lambda tx, lease=one.lease: actions.hand_back(tx, lease))  # type: ignore[misc]
    assert sends.state(doubtful) is S.NEEDS_REVIEW
    assert sends.state(untried) is S.FAILED


def test_what_a_person_decided_does_not_expire_before_it_went(sends: Sends) -> None:
    action_id = sends.proposed()
    sends.sql(
        "UPDATE nottwice.actions SET decided_send = true, retry_until = now() WHERE id = :id", id=action_id
    )
    assert sends.by_worker.run(actions.expire) == []


# ── Policies ──────────────────────────────────────────────────────────────────────────────────────────


def test_policy_resend_tries_once_more_after_the_time_for_evidence(sends: Sends) -> None:
    action_id = sends.proposed(replace(KEYLESS, policy=Policy.RESEND, evidence_s=300.0))
    sends.tried(action_id, UNKNOWN)
    row = sends.row(action_id)
    assert row.state == S.APPROVED
    assert (row.due_at - sends.attempts(action_id)[0].answered_at).total_seconds() > 290
    sends.tried(action_id, UNKNOWN)
    assert sends.state(action_id) is S.NEEDS_REVIEW
    assert [(a.act, a.role, a.person_id) for a in sends.audit(action_id)] == [
        ("sent again by policy", "policy", None)
    ]


def test_policy_drop_closes_and_says_so(sends: Sends) -> None:
    action_id = sends.proposed(replace(KEYLESS, policy=Policy.DROP))
    sends.tried(action_id, None)
    assert sends.state(action_id) is S.CLOSED
    (entry,) = sends.audit(action_id)
    assert (entry.act, entry.role, entry.state_before, entry.state_after) == (
        "closed by policy",
        "policy",
        "sending",
        "closed",
    )
    assert "may have gone out" in entry.why


def test_a_refusal_is_final(sends: Sends) -> None:
    action_id = sends.proposed()
    sends.tried(action_id, Refused("no such recipient", "422"))
    assert sends.state(action_id) is S.REFUSED
    assert sends.claim_or_none() is None


def test_proof_beats_what_was_thought_final(sends: Sends) -> None:
    action_id = sends.proposed()
    sends.tried(action_id, Refused("no such recipient", "422"))
    now = sends.rows("SELECT now() AS now")[0].now
    proof = Evidence("webhook", "delivered", PointsTo.SENT, True, now, "<m>")
    assert sends.by_worker.run(lambda tx: actions.add_evidence(tx, action_id, proof)) is S.SENT


# ── The index ─────────────────────────────────────────────────────────────────────────────────────────


def test_claim_and_sweep_read_an_index_beside_a_hundred_thousand_sent(sends: Sends) -> None:
    """As the table was taken for empty, and with fresh statistics."""
    sends.sql(
        """INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, provider, account, reference, policy, cost,
                                         content_digest, key_margin_s, evidence_s, retry_until, state, settled_at)
           SELECT 'acme', 'k' || n, sha256(convert_to(n::text, 'UTF8')), 'receipt', 'inboxili', 'inboxili', 'nt', 'review', 'low',
                  '', 900, 300, now(), 'sent', now() FROM generate_series(1, 100000) AS n"""
    )
    sends.proposed(KEYLESS)
    for ahead in ("SELECT 1", "ANALYZE nottwice.actions"):
        sends.sql(ahead)
        an_index_leads_to_what_is_due(sends, ahead)


def an_index_leads_to_what_is_due(sends: Sends, about: str) -> None:
    claim = {"accounts": ["inboxili", "agentmail"], "token": uuid4(), "worker": uuid4(), "lease_s": 30}
    sweep = {"late_s": 15, "lease_s": 30}
    for statement, values in (
        (actions.CLAIM, claim),
        (expiry.EXPIRED, {"limit": 100}),
        (workers.SWEEP, sweep),
    ):
        rows = sends.by_worker.run(lambda tx, s=statement, v=values: tx.all("EXPLAIN " + s, **v))  # type: ignore[misc]
        plan = [line for (line,) in rows]
        assert any("actions_due" in line for line in plan), (about, plan)
        assert not any("Seq Scan on actions" in line for line in plan), (about, plan)
        assert statement == actions.CLAIM or not any("actions_pkey" in line for line in plan), (about, plan)


def test_a_worker_is_told_when_an_account_probes(sends: Sends) -> None:
    for _ in range(2):
        sends.proposed()
    sends.sql(
        "INSERT INTO nottwice.provider_pauses (account, paused_until, reason) VALUES ('agentmail', now(), '')"
    )

    def is_due() -> bool:
        sql = "SELECT nottwice.work_is_due('{}', '{}', '{agentmail}') AS due"
        return bool(sends.by_worker.run(lambda tx: tx.one(sql)).due)

    assert is_due()
    claimed = sends.claimed()
    assert not is_due()
    sends.answered(sends.started(claimed), ACCEPTED)
    assert is_due()


def test_an_action_that_is_not_there_is_nobodys(sends: Sends) -> None:
    with pytest.raises(LeaseLost):
        sends.by_worker.run(lambda tx: judging.lock(tx, 12345))
