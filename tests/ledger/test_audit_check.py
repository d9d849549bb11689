"""Is the record whole: what was changed, removed, put in, moved or cut off is named; and what cannot be seen."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError

from ledger.audit import check as audit_check
from ledger.audit import memory as audit_memory
from ledger.audit import seals
from ledger.audit.memory import Verification
from ledger.records import Role
from tests.fix_sends import Sends
from tests.ledger.test_seals import entries


def sealed(sends: Sends, n: int) -> list[int]:
    ids = entries(sends, n)
    sends.by_worker.run(seals.seal)
    return ids


def verified(sends: Sends, **more: object) -> Verification:
    return audit_check.verify(sends.by_owner.run, **more)  # type: ignore[arg-type]


def recorded(sends: Sends) -> Verification:
    found = verified(sends)
    act = sends.act(sends.person("Eve", Role.AUDITOR))
    sends.by_console.run(lambda tx: audit_memory.record(tx, found, act), role=Role.AUDITOR)
    return found


def open_up(sends: Sends) -> None:
    """What only the owner of the database can do."""
    for table in ("audit", "audit_seals", "audit_checks"):
        sends.sql(f"ALTER TABLE nottwice.{table} DISABLE TRIGGER USER")
    sends.sql("ALTER TABLE nottwice.audit_seals DROP CONSTRAINT audit_seals_audit_id_fkey")


def broken(sends: Sends, **more: object) -> tuple[int, str]:
    found = verified(sends, **more).broken
    assert found is not None
    return found.entry, found.words


def made_anew(sends: Sends) -> None:
    """Every seal, as somebody who knows how would make it."""
    sends.sql("DELETE FROM nottwice.audit_seals")
    sends.sql(
        "INSERT INTO nottwice.audit_unsealed (audit_id) SELECT id FROM nottwice.audit ON CONFLICT DO NOTHING"
    )
    sends.by_worker.run(seals.seal)


def test_a_whole_record(sends: Sends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_check, "ROWS", 2)
    sealed(sends, 5)
    steps: list[tuple[int, int]] = []
    found = audit_check.verify(sends.by_owner.run, lambda done, of: steps.append((done, of)))
    assert (found.entries, found.broken, found.backdated, found.unsealed) == (5, None, None, 0)
    assert steps == [(2, 5), (4, 5), (5, 5)]
    last = sends.rows("SELECT hash FROM nottwice.audit_seals WHERE sequence = 5")[0]
    assert found.hash == bytes(last.hash)


def test_what_is_sealed_during_a_check_is_for_the_next_one(
    sends: Sends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_check, "ROWS", 2)
    sealed(sends, 3)
    steps: list[tuple[int, int]] = []

    def told(done: int, of: int) -> None:
        steps.append((done, of))
        sealed(sends, 2)

    found = audit_check.verify(sends.by_owner.run, told)
    assert (found.entries, found.broken, steps) == (3, None, [(2, 3), (3, 3)])
    assert verified(sends).entries == 7


def test_an_empty_record_is_whole(sends: Sends) -> None:
    found = verified(sends)
    assert (found.entries, found.broken, found.hash) == (0, None, seals.GENESIS)


@pytest.mark.parametrize(
    ("touch", "entry", "words"),
    [
        ("UPDATE nottwice.audit SET why = 'other' WHERE id = {2}", 2, "Entry {2} was changed after"),
        ("UPDATE nottwice.audit SET looked_at = '{{x}}' WHERE id = {0}", 0, "Entry {0} was changed after"),
        (
            "UPDATE nottwice.audit SET at = at + interval '1 us' WHERE id = {1}",
            1,
            "Entry {1} was changed after",
        ),
        (
            "UPDATE nottwice.audit_seals SET hash = '\\x00' WHERE audit_id = {1}",
            1,
            "Entry {1} was changed after",
        ),
        ("DELETE FROM nottwice.audit WHERE id = {1}", 1, "Entry {1} is missing; only its seal is left"),
        (
            "DELETE FROM nottwice.audit_seals WHERE audit_id = {1}",
            2,
            "between entry {0} and entry {2} is missing",
        ),
        (
            "DELETE FROM nottwice.audit_seals WHERE audit_id = {0}",
            1,
            "between the beginning and entry {1} is missing",
        ),
        ("DELETE FROM nottwice.audit_seals WHERE audit_id = {3}", 3, "Entry {3} has no seal"),
        (
            "INSERT INTO nottwice.audit (id, role, act, entity, entity_id, outcome) OVERRIDING SYSTEM VALUE"
            " VALUES (-7, 'policy', 'forged', 'action', 1, 'done')",
            None,
            "Entry -7 has no seal and waits for none",
        ),
    ],
)
def test_what_was_touched_is_named(sends: Sends, touch: str, entry: int | None, words: str) -> None:
    ids = sealed(sends, 4)
    open_up(sends)
    sends.sql(touch.format(*ids))
    assert words.format(*ids) in broken(sends)[1]
    assert broken(sends)[0] == (-7 if entry is None else ids[entry])


def test_a_removed_entry_whose_place_was_closed_up_is_noticed(sends: Sends) -> None:
    ids = sealed(sends, 4)
    open_up(sends)
    for sql in (
        "DELETE FROM nottwice.audit_seals WHERE audit_id = :id",
        "DELETE FROM nottwice.audit WHERE id = :id",
    ):
        sends.sql(sql, id=ids[1])
    sends.sql("UPDATE nottwice.audit_seals SET sequence = sequence - 1 WHERE audit_id = :id", id=ids[2])
    sends.sql("UPDATE nottwice.audit_seals SET sequence = sequence - 1 WHERE audit_id = :id", id=ids[3])
    assert broken(sends) == (ids[2], f"Entry {ids[2]} does not follow from the one before it.")


def test_two_entries_that_changed_places_are_noticed(sends: Sends) -> None:
    ids = sealed(sends, 4)
    open_up(sends)
    for id_, place in ((ids[1], 99), (ids[2], 2), (ids[1], 3)):
        sends.sql("UPDATE nottwice.audit_seals SET sequence = :n WHERE audit_id = :id", n=place, id=id_)
    assert broken(sends) == (ids[2], f"Entry {ids[2]} does not follow from the one before it.")


def test_an_entry_put_in_with_a_seal_of_its_own_is_noticed(sends: Sends) -> None:
    ids = sealed(sends, 3)
    open_up(sends)
    sends.sql("UPDATE nottwice.audit_seals SET sequence = 4 WHERE sequence = 3")
    (forged,) = entries(sends, 1)
    row = sends.rows("SELECT * FROM nottwice.audit WHERE id = :id", id=forged)[0]
    before = bytes(sends.rows("SELECT hash FROM nottwice.audit_seals WHERE sequence = 2")[0].hash)
    sends.sql(
        "INSERT INTO nottwice.audit_seals (sequence, audit_id, previous_hash, hash) VALUES (3, :id, :before, :hash)",
        id=forged,
        before=before,
        hash=seals.link(before, row),
    )
    assert broken(sends) == (ids[2], f"Entry {ids[2]} does not follow from the one before it.")


def test_an_entry_removed_before_its_seal_is_noticed(sends: Sends) -> None:
    (only,) = entries(sends, 1)
    open_up(sends)
    sends.sql("DELETE FROM nottwice.audit")
    assert sends.by_worker.run(seals.seal) == 0
    assert broken(sends) == (only, f"Entry {only} is missing; it was removed before it could be sealed.")


def test_an_entry_that_claims_an_earlier_time_is_pointed_out(sends: Sends) -> None:
    sealed(sends, 2)
    sends.sql(
        """INSERT INTO nottwice.audit (at, role, act, entity, entity_id, outcome)
           VALUES (now() - interval '3 days', 'policy', 'forged', 'action', 1, 'refused')"""
    )
    later = sealed(sends, 1)
    found = verified(sends)
    assert found.broken is None and found.backdated == later[0] - 1


# ── What was cut off, or made anew ────────────────────────────────────────────────────────────────────


def test_a_cut_tail_is_noticed_by_the_check_before(sends: Sends) -> None:
    ids = sealed(sends, 4)
    recorded(sends)
    open_up(sends)
    sends.sql("DELETE FROM nottwice.audit_seals WHERE sequence > 2")
    sends.sql("DELETE FROM nottwice.audit WHERE id = ANY(:ids)", ids=ids[2:])
    entry, words = broken(sends)
    assert entry == ids[1] and words.startswith(
        f"The record ends too early, behind entry {ids[1]}: 2 that the check of"
    )


def test_a_chain_made_anew_is_noticed_by_the_check_before(sends: Sends) -> None:
    ids = sealed(sends, 3)
    recorded(sends)
    open_up(sends)
    sends.sql("UPDATE nottwice.audit SET why = 'other' WHERE id = :id", id=ids[0])
    made_anew(sends)
    entry, words = broken(sends)
    assert entry == ids[2] and "is not the one that the check of" in words


def test_without_an_earlier_check_only_a_kept_seal_shows_a_cut_tail(sends: Sends) -> None:
    """The limit that the module names."""
    ids = sealed(sends, 3)
    kept = (3, verified(sends).hash)
    open_up(sends)
    sends.sql("DELETE FROM nottwice.audit_seals WHERE sequence = 3")
    sends.sql("DELETE FROM nottwice.audit WHERE id = :id", id=ids[2])
    assert verified(sends).broken is None
    assert broken(sends, kept=kept) == (
        ids[1],
        f"The record ends too early, behind entry {ids[1]}: 1 that somebody kept are gone.",
    )
    assert "is not the one that somebody kept" in broken(sends, kept=(2, kept[1]))[1]


def test_what_grows_after_a_check_stays_whole(sends: Sends) -> None:
    sealed(sends, 2)
    recorded(sends)  # itself an entry
    sealed(sends, 2)
    assert (verified(sends).entries, verified(sends).broken) == (5, None)


# ── The memory of checks ──────────────────────────────────────────────────────────────────────────────


def test_the_last_check_is_remembered_with_who_made_it(sends: Sends) -> None:
    assert sends.by_console.run(audit_memory.last_check, role=Role.SUPPORT) is None
    sealed(sends, 2)
    act = sends.act(sends.person("Eve", Role.AUDITOR))
    found = audit_check.verify(lambda body: sends.by_console.run(body, role=Role.AUDITOR))
    sends.by_console.run(lambda tx: audit_memory.record(tx, found, act), role=Role.AUDITOR)
    last = sends.by_console.run(audit_memory.last_check, role=Role.SUPPORT)
    assert last is not None
    assert (last.who, last.entries, last.broken, last.unsealed) == ("Eve", 2, None, 0)


def test_a_broken_check_is_remembered_and_compared_with_nothing(sends: Sends) -> None:
    ids = sealed(sends, 3)
    open_up(sends)
    sends.sql("UPDATE nottwice.audit SET why = 'other' WHERE id = :id", id=ids[1])
    found = recorded(sends)
    last = sends.by_owner.run(audit_memory.last_check)
    assert last is not None and last.broken == found.broken and last.entries == 1


def test_a_check_is_an_entry_of_the_record_and_none_is_kept_without(sends: Sends) -> None:
    sealed(sends, 2)
    eve = sends.person("Eve", Role.AUDITOR)
    forged = """INSERT INTO nottwice.audit_checks (person_id, entries, hash, broken_entry, broken, unsealed)
                VALUES (:who, 1, '', 2, 'forged', 0)"""
    for who in (eve.id, None):
        with pytest.raises(DBAPIError, match="no check of the record without its audit row"):
            sends.decide(sends.act(eve), lambda tx, who=who: tx.execute(forged, who=who) and None)  # type: ignore[misc]
    assert sends.rows("SELECT FROM nottwice.audit_checks") == []
    recorded(sends)
    (entry,) = sends.rows("SELECT * FROM nottwice.audit WHERE entity = 'audit'")
    assert (entry.act, entry.person_id, entry.role, entry.detail) == (
        "checked the record",
        eve.id,
        "auditor",
        "whole, 2 entries",
    )


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUPPORT, Role.ENGINEER])
def test_only_auditors_and_admins_record_a_check(sends: Sends, role: Role) -> None:
    found = verified(sends)
    with pytest.raises(DBAPIError, match="permission denied"):
        sends.by_console.run(lambda tx: audit_memory.record(tx, found, None), role=role)


@pytest.mark.parametrize("table", ["audit", "audit_seals", "audit_checks"])
def test_even_the_owner_does_not_empty_the_record_by_mistake(sends: Sends, table: str) -> None:
    with pytest.raises(DBAPIError, match="never changed"):
        sends.sql(f"TRUNCATE nottwice.{table} CASCADE")
