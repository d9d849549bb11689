"""`rate`: how many of a kind one recipient gets, however many are proposed at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row
from sqlalchemy.exc import ProgrammingError

from ledger import actions, decisions
from ledger.actions import rates
from ledger.database import Database
from ledger.errors import Misconfigured
from ledger.records import Accepted, Decision, Email, KindRules, Proposal, Proposed, Rate, Refused
from ledger.settings import ActionSettings, Settings, load
from ledger.states import ActionState
from tests.fix_application import Application
from tests.fix_sends import KEYLESS, TO_APPROVE, Sends

S = ActionState
LoginUrl = Callable[[str], str]
DAY_S = 86_400.0
TWICE = replace(KEYLESS, kind="alert", rate=Rate(2, DAY_S))
ANN, BO = "ann@example.com", "bo@example.com"


def proposal(n: int, *to: str, rules: KindRules = TWICE) -> Proposal:
    mail = Email(to or (ANN,), "Alert", "Somebody signed in.", sender="shop@example.org")
    return Proposal("acme", f"{rules.kind}:{n}", rules, mail.content(), mail.to)


def proposed(sends: Sends, n: int, *to: str, rules: KindRules = TWICE) -> Proposed:
    return sends.by_worker.run(lambda tx: actions.propose(tx, proposal(n, *to, rules=rules)))


def states(sends: Sends, *made: Proposed) -> list[S]:
    return [sends.state(one.action_id) for one in made]


def test_over_the_rate_it_is_kept_closed_and_said_why(sends: Sends) -> None:
    made = [proposed(sends, n) for n in range(3)]
    assert [one.state for one in made] == states(sends, *made) == [S.APPROVED, S.APPROVED, S.CLOSED]
    (entry,) = sends.audit(made[2].action_id)
    assert (entry.act, entry.role) == ("closed by policy", "policy")
    assert entry.why == (
        "A recipient has had 2 of this kind within 1 d, as many as [actions.alert] rate allows. Nothing went out."
    )
    again = proposed(sends, 2)
    assert (again.created, again.state) == (False, S.CLOSED)  # its key is taken


def test_each_recipient_kind_and_namespace_apart(sends: Sends) -> None:
    other = replace(TWICE, kind="code")
    for n in range(2):
        proposed(sends, n)
    made = [proposed(sends, 9, BO), proposed(sends, 9, rules=other)]
    elsewhere = replace(proposal(9), namespace="globex")
    made.append(sends.by_worker.run(lambda tx: actions.propose(tx, elsewhere)))
    assert states(sends, *made) == [S.APPROVED] * 3


@pytest.mark.parametrize(
    ("spelled", "counts"),
    [("Ann <ANN@example.com>", True), (" ann@example.com ", True), ("ann+shop@example.com", False)],
)
def test_a_recipient_is_the_bare_mailbox_in_small_letters(sends: Sends, spelled: str, counts: bool) -> None:
    proposed(sends, 0), proposed(sends, 1)
    assert proposed(sends, 2, spelled).state is (S.CLOSED if counts else S.APPROVED)


def test_over_for_one_recipient_is_over_for_the_mail_and_takes_nothing_of_the_others(sends: Sends) -> None:
    proposed(sends, 0), proposed(sends, 1)
    assert proposed(sends, 2, ANN, BO).state is S.CLOSED
    made = [proposed(sends, n, BO) for n in (3, 4, 5)]
    assert states(sends, *made) == [S.APPROVED, S.APPROVED, S.CLOSED]


def test_what_certainly_did_not_go_out_counts_no_more(sends: Sends) -> None:
    first = proposed(sends, 0)
    sends.tried(first.action_id, Refused("no"))
    waits = proposed(sends, 1, rules=replace(TWICE, approval=True))
    act, seen = sends.act(sends.person("Ann")), sends.seen(waits.action_id)
    sends.decide(act, lambda tx: actions.decline(tx, waits.action_id, seen, act))
    late = proposed(sends, 2, rules=replace(TWICE, send_before_s=600.0))
    sends.sql("UPDATE nottwice.actions SET send_before = now() WHERE id = :id", id=late.action_id)
    sends.by_worker.run(actions.expire)
    made = [proposed(sends, n) for n in (3, 4, 5)]
    assert states(sends, *made) == [S.APPROVED, S.APPROVED, S.CLOSED]


def test_what_may_have_gone_out_counts(sends: Sends) -> None:
    sends.uncertain(TWICE)
    accepted = proposed(sends, 1)
    sends.tried(accepted.action_id, Accepted("<m@provider.example>"))
    assert proposed(sends, 2).state is S.CLOSED


def test_the_same_key_again_takes_nothing(sends: Sends) -> None:
    made = [proposed(sends, n) for n in (0, 0, 0, 1, 2)]
    assert [one.created for one in made] == [True, False, False, True, True]
    assert made[-2].state is S.APPROVED


def test_after_its_time_there_is_room_again_and_nothing_is_left(sends: Sends) -> None:
    proposed(sends, 0), proposed(sends, 1)
    sends.sql("UPDATE nottwice.rated SET counts_until = now()")
    assert proposed(sends, 2).state is S.APPROVED
    assert sends.by_worker.run(rates.forget) == 2
    assert len(sends.rows("SELECT FROM nottwice.rated")) == 1


def test_two_at_the_same_instant_see_each_other(sends: Sends, login_url: LoginUrl) -> None:
    """The first has proposed and not committed; the others wait for it, and count it."""
    others = 5
    with (
        closing(Database(login_url("nottwice_worker"), pool_size=others)) as database,
        ThreadPoolExecutor(others) as pool,
    ):
        with sends.by_worker.transaction() as tx:
            actions.propose(tx, proposal(0))
            made = [
                pool.submit(database.run, lambda tx, n=n: actions.propose(tx, proposal(n)))
                for n in range(1, 1 + others)
            ]
            waiting = """SELECT count(*) AS n FROM pg_locks JOIN pg_database d ON d.oid = database
                             WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"""
            deadline = time.monotonic() + 40
            while tx.one(waiting).n < others:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        found = [one.result(40).state for one in made]
    assert sorted(found) == [S.APPROVED] + [S.CLOSED] * (others - 1)


def test_several_recipients_in_any_order_do_not_wait_for_each_other(
    sends: Sends, login_url: LoginUrl
) -> None:
    with (
        closing(Database(login_url("nottwice_worker"), pool_size=4)) as database,
        ThreadPoolExecutor(4) as pool,
    ):
        orders = [(ANN, BO), (BO, ANN)] * 10
        rules = replace(TWICE, rate=Rate(len(orders), DAY_S))
        made = pool.map(
            lambda n: database.run(lambda tx: actions.propose(tx, proposal(n, *orders[n], rules=rules))),
            range(20),
        )
        assert {one.state for one in made} == {S.APPROVED}


def test_a_person_may_send_it_nevertheless(sends: Sends) -> None:
    proposed(sends, 0), proposed(sends, 1)
    over = proposed(sends, 2).action_id
    act = sends.act(sends.person("Ann"))
    sends.decide(act, lambda tx: decisions.reopen(tx, over, act))
    act, seen = sends.act(act.person), sends.seen(over)
    sends.decide(act, lambda tx: decisions.settle(tx, over, seen, Decision.RESEND_SAME_KEY, act))
    sends.tried(over, Accepted("<m@provider.example>"))
    assert sends.state(over) is S.SENT


def test_a_kind_without_a_rate_counts_nothing(sends: Sends) -> None:
    for n in range(3):
        assert proposed(sends, n, rules=replace(TWICE, rate=None)).state is S.APPROVED
    assert proposed(sends, 3, rules=TO_APPROVE).state is S.PROPOSED
    assert sends.rows("SELECT FROM nottwice.rated") == []


def test_what_counts_is_found_by_its_index(sends: Sends) -> None:
    sends.sql(
        """INSERT INTO nottwice.rated SELECT a.id, 'acme', 'alert', sha256(int8send(n)), now() + interval '1 day'
           FROM generate_series(1, 5000) AS n, (SELECT id FROM nottwice.actions LIMIT 1) AS a"""
    )
    proposed(sends, 0)
    sends.sql(
        """INSERT INTO nottwice.rated SELECT a.id, 'acme', 'alert', sha256(int8send(n)), now() + interval '1 day'
           FROM generate_series(1, 5000) AS n, (SELECT id FROM nottwice.actions LIMIT 1) AS a"""
    )
    sends.sql("ANALYZE nottwice.rated")
    sql = "EXPLAIN SELECT * FROM nottwice.had_as_many('acme', 'alert', ARRAY[sha256('')], 2)"
    plan = "\n".join(row[0] for row in sends.rows(sql))
    assert "rated_recipients" in plan, plan
    assert "Seq Scan on rated" not in plan, plan


# ── Applications ──────────────────────────────────────────────────────────────────────────────────────


def limited(application: Application) -> Settings:
    rules = ActionSettings(provider="mail", rate="1 per 1 d", send_before="10 min")  # type: ignore[arg-type]
    return application.settings.model_copy(update={"actions": {"welcome": rules}})


def test_an_application_is_held_to_the_same_limits_in_its_own_transaction(application: Application) -> None:
    settings = limited(application)
    for connection in (application.psycopg(row_factory=dict_row), application.sqlalchemy()):
        late = datetime.now(UTC) - timedelta(hours=1)
        made = [application.propose(connection, f"k:{n}", settings=settings) for n in range(2)]
        made.append(application.propose(connection, "late", settings=settings, at=late))
        assert [one.state for one in made] == [S.APPROVED, S.CLOSED, S.CLOSED]
        connection.rollback()
    assert application.rows() == []
    assert application.rows("SELECT FROM nottwice.rated") == []


@pytest.mark.parametrize(
    "call", ["hold_back(:id, 'I say so')", "is_one_too_many(:id, ARRAY[sha256('')], 1, 60)"]
)
def test_what_stands_is_counted_and_closed_by_no_application(application: Application, call: str) -> None:
    connection = application.sqlalchemy()
    standing = application.propose(connection, "k:1").action_id
    connection.commit()
    with pytest.raises(ProgrammingError, match="only a new action"):
        connection.execute(sa.text(f"SELECT nottwice.{call}"), {"id": standing})
    connection.rollback()
    assert [row.state for row in application.rows("SELECT state FROM nottwice.actions")] == ["approved"]


# ── The configuration ─────────────────────────────────────────────────────────────────────────────────

HEAD = '[providers.post]\nkind = "inboxili"\nkey = "k"\n[actions.a]\nprovider = "post"\n'


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    (tmp_path / "nottwice.toml").write_text(HEAD + line + "\n")


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("3 per 1d", Rate(3, DAY_S)),
        ("1 per 90 s", Rate(1, 90.0)),
        (" 10  per  1.5 h ", Rate(10, 5400.0)),
        ("2 per 10min", Rate(2, 600.0)),
    ],
)
def test_a_rate_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, rate: Rate) -> None:
    written(tmp_path, monkeypatch, f'rate = "{text}"')
    assert load().rules("a").rate == rate


@pytest.mark.parametrize(
    "text",
    [
        '"3"',
        '"per 1 d"',
        '"0 per 1 d"',
        '"3 per day"',
        '"-1 per 1 d"',
        '"3 per 0 s"',
        "3",
        '"3 per 9999999 d"',
    ],
)
def test_a_wrong_rate_stops_the_start_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    written(tmp_path, monkeypatch, f"rate = {text}")
    with pytest.raises(
        Misconfigured, match=r"line 6: \[actions.a\] rate is no rate; write how many in what time"
    ):
        load()


@pytest.mark.parametrize(
    ("text", "seconds"), [("600", 600.0), ('"10 min"', 600.0), ('"1d"', DAY_S), ("0.5", 0.5)]
)
def test_a_last_moment_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    written(tmp_path, monkeypatch, f"send_before = {text}")
    assert load().rules("a").send_before_s == seconds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"soon"', 'send_before is no span of time; write "90 s"'),
        ('"10 m"', "send_before is no span of time"),
        ("0", "send_before "),
        ("-5", "send_before "),
        ("[1]", "send_before must be a number"),
    ],
)
def test_a_wrong_last_moment_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    written(tmp_path, monkeypatch, f"send_before = {text}")
    with pytest.raises(Misconfigured) as refusal:
        load()
    assert f"line 6: [actions.a] {words}" in str(refusal.value)


@pytest.mark.parametrize(
    ("seconds", "words"), [(86_400, "1 d"), (5400, "90 min"), (90, "90 s"), (7200, "2 h"), (0.5, "0.5 s")]
)
def test_spans_in_words(seconds: float, words: str) -> None:
    assert rates.span(seconds) == words
