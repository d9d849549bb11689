"""A pause that a person ends: by an admin alone, with a reason, on record, once, and one send tries."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError
from typer.testing import CliRunner

from ledger import audit
from ledger.accounts import pauses, resuming
from ledger.accounts.pauses import Pause
from ledger.cli import app
from ledger.database import Transaction, sqlstate
from ledger.errors import AlreadyDecided, Incomplete, NotAllowed, NotNow, Stale
from ledger.records import Act, NotSent, Role
from tests.fix_sends import Sends
from tests.ledger.test_actions_races import race

RETRY_AFTER = NotSent("limited", "429", pauses=True, retry_after_s=500.0)
ROUNDS = 6
PEOPLE = """
[console]
people = [
    { name = "Bo", email = "bo@acme.example", role = "admin" },
    { name = "Eva", email = "eva@acme.example", role = "engineer" },
]
"""


def paused(sends: Sends) -> Pause:
    """An account whose provider asked for eight minutes."""
    if not standing(sends):
        sends.tried(sends.proposed(), RETRY_AFTER)
    (one,) = standing(sends)
    return one


def standing(sends: Sends) -> list[Pause]:
    return sends.by_owner.run(pauses.standing)


def still(sends: Sends, pause: Pause) -> bool:
    """As long as it was."""
    return [(one.id, one.paused_until) for one in standing(sends)] == [(pause.id, pause.paused_until)]


def resumed(sends: Sends, act: Act, pause: Pause) -> str:
    return sends.decide(act, lambda tx: resuming.resume(tx, act, pause.id, pause.paused_until))


def admin(sends: Sends, name: str = "Bo") -> Act:
    return sends.act(sends.person(name, Role.ADMIN), "mended, they say")


def test_a_retry_after_pause_ends_and_one_send_tries(sends: Sends) -> None:
    pause = paused(sends)
    for _ in range(2):
        sends.proposed()
    assert sends.claim_or_none() is None and resumed(sends, admin(sends), pause) == "agentmail"
    assert standing(sends) == [] and sends.claim_or_none() is not None
    assert sends.claim_or_none() is None, "one alone, until a call succeeds"
    (row,) = sends.rows(
        "SELECT act, entity, entity_id, why, detail, state_before, state_after FROM nottwice.audit"
    )
    assert tuple(row) == (
        "resume",
        "provider",
        pause.id,
        "mended, they say",
        "account agentmail",
        "paused",
        "open",
    )


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.ADMIN])
def test_nobody_but_an_admin_may_and_the_database_says_so_too(sends: Sends, role: Role) -> None:
    pause = paused(sends)
    act = sends.act(sends.person("Eva", role), "please")
    with pytest.raises(NotAllowed):
        resumed(sends, act, pause)

    def forged(tx: Transaction) -> None:
        audit_id = audit.done(
            tx, act, "resume", "provider", pause.id, version=None, before="paused", after="open"
        )
        tx.execute("SELECT nottwice.resume_account(:id)", id=audit_id)

    with pytest.raises(DBAPIError) as refused:
        sends.decide(act, forged)
    assert sqlstate(refused.value) == "42501" and still(sends, pause)


def test_without_its_audit_row_nothing_resumes(sends: Sends) -> None:
    pause, act = paused(sends), admin(sends)

    def call(tx: Transaction, **differs: object) -> bool:
        given = {"entity": "provider", "what": "resume", "id": pause.id} | differs
        audit_id = audit.done(
            tx, act, given["what"], given["entity"], given["id"], version=None, before="a", after="b"
        )  # type: ignore[arg-type]
        return bool(tx.one("SELECT nottwice.resume_account(:id) AS done", id=audit_id).done)

    assert not sends.decide(act, lambda tx: call(tx, entity="action"))
    for differs in ({"what": "look"}, {"id": pause.id + 1}):
        act = sends.act(act.person, "x")
        with pytest.raises(DBAPIError, match="claims a change that was not made"):
            sends.decide(act, lambda tx, differs=differs: call(tx, **differs))  # type: ignore[misc]
    act = sends.act(act.person, "x")
    earlier = sends.by_owner.run(
        lambda tx: audit.done(tx, act, "resume", "provider", pause.id, version=None, before="a", after="b")
    )
    assert not sends.decide(
        act, lambda tx: tx.one("SELECT nottwice.resume_account(:id) AS done", id=earlier).done
    )
    with pytest.raises(DBAPIError):
        sends.decide(
            act, lambda tx: tx.execute("UPDATE nottwice.provider_pauses SET paused_until = now()") and None
        )
    assert still(sends, pause)


def test_a_reason_the_right_pause_and_once(sends: Sends) -> None:
    pause = paused(sends)
    with pytest.raises(Incomplete):
        resumed(sends, Act(sends.person("Bo", Role.ADMIN), uuid4(), " "), pause)
    longer = Pause(pause.id, pause.account, pause.paused_until - timedelta(seconds=1), 0, "")
    with pytest.raises(Stale):
        resumed(sends, admin(sends), longer)
    act = admin(sends)
    resumed(sends, act, pause)
    with pytest.raises(AlreadyDecided) as twice:
        resumed(sends, act, pause)
    assert twice.value.same_form
    with pytest.raises(AlreadyDecided) as second:
        resumed(sends, admin(sends, "Cy"), pause)
    assert (second.value.who, second.value.what) == ("Bo", "resumed")
    with pytest.raises(NotNow):
        resumed(sends, admin(sends), Pause(pause.id + 9, "other", pause.paused_until, 0, ""))


def test_two_admins_at_once_are_one_decision_and_the_other_is_told(sends: Sends) -> None:
    for _ in range(ROUNDS):
        sends.sql("DELETE FROM nottwice.provider_pauses")
        sends.by_worker.run(lambda tx: pauses.pause(tx, "agentmail", "limited", retry_after_s=500))
        (pause,) = standing(sends)
        before = len(sends.rows("SELECT FROM nottwice.audit"))
        acts = [admin(sends, "Bo"), admin(sends, "Cy")]
        got = race(*[lambda act=act, pause=pause: told(sends, act, pause) for act in acts])  # type: ignore[misc]
        assert sorted(map(str, got)) in (["agentmail", "first Bo"], ["agentmail", "first Cy"])
        assert len(sends.rows("SELECT FROM nottwice.audit")) == before + 1


def test_who_began_first_and_came_second_is_told_who_was_first(sends: Sends) -> None:
    """Their transaction's own time is the earlier one: by it the pause would still stand, and look like another."""
    pause, first, second = paused(sends), admin(sends, "Bo"), admin(sends, "Cy")

    def late(tx: Transaction) -> str:
        tx.one("SELECT now() AS at")
        race(lambda: resumed(sends, first, pause))  # on a thread of its own
        return resuming.resume(tx, second, pause.id, pause.paused_until)

    with pytest.raises(AlreadyDecided) as refused:
        sends.decide(second, late)
    assert refused.value.who == "Bo"


def told(sends: Sends, act: Act, pause: Pause) -> str:
    try:
        return resumed(sends, act, pause)
    except AlreadyDecided as error:
        return f"first {error.who}"


def test_the_command_line_does_the_same(
    sends: Sends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nottwice.toml").write_text(PEOPLE)
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("NOTTWICE_CONFIG", str(tmp_path / "nottwice.toml"))
    monkeypatch.setenv("DATABASE_URL", sends.by_console.engine.url.render_as_string(hide_password=False))
    paused(sends)

    def ran(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["resume", *words])
        return done.exit_code, done.output

    code, said = ran()
    assert code == 1 and said.startswith("agentmail: until ") and "limited" in said
    assert ran("agentmail")[0] == 2, "who and why belong to it"
    assert ran("other", "--as", "bo@acme.example", "--reason", "x")[0] == 1
    code, said = ran("agentmail", "--as", "eva@acme.example", "--reason", "please")
    assert code == 1 and said == "Not resumed: You can read this. An admin resumes an account.\n"
    code, said = ran("agentmail", "--as", "bo@acme.example", "--reason", "mended")
    assert (code, said) == (0, "Resumed, as Bo: agentmail. One send tries it now.\n")
    assert ran() == (0, "No account is paused.\n")
    rows = sends.rows("SELECT outcome, why FROM nottwice.audit ORDER BY id")
    assert [tuple(row) for row in rows] == [("refused", "please"), ("done", "mended")]
