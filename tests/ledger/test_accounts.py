"""An account that a provider's name no longer stands for: what was written for it goes to a person, not out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger import accounts, decisions
from ledger.actions import hand_back, start
from ledger.database import Transaction
from ledger.errors import MayNotStart, NotNow
from ledger.records import Decision, KindRules, NotSent, Role
from ledger.settings import Settings, load
from ledger.states import ActionState
from tests.fix_sends import ACCEPTED, KEYED, KEYLESS, TO_APPROVE, UNKNOWN, Sends
from tests.ledger.test_decisions_second_person import agree, ask

S = ActionState
FILE = """
[providers.agentmail]
kind = "agentmail"
key = "{key}"
account = "{account}"
{more}
[providers.inboxili]
kind = "inboxili"
key = "other"
"""
ELSEWHERE = 'base_url = "https://elsewhere.example"'


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))


def configured(folder: Path, account: str = "agentmail", key: str = "one", more: str = "") -> Settings:
    file = folder / "nottwice.toml"
    file.write_text(FILE.format(account=account, key=key, more=more))
    return load(file)


def of_another_kind(folder: Path) -> Settings:
    file = folder / "nottwice.toml"
    text = FILE.format(account="agentmail", key="one", more=ELSEWHERE)
    file.write_text(text.replace('kind = "agentmail"', 'kind = "mailera"'))
    return load(file)


def rules(settings: Settings, **changes: Any) -> KindRules:
    """As a process with this configuration writes an action down."""
    return replace(KEYED, place=settings.providers["agentmail"].place, **changes)


def told(sends: Sends, settings: Settings) -> list[int]:
    """A worker reads this configuration; the sends that moved."""

    def both(tx: Transaction) -> list[int]:
        accounts.register(tx, settings)
        return [one.id for one in accounts.judge_moved(tx)]

    return sends.by_worker.run(both)


def test_a_retry_under_another_account_goes_to_review(sends: Sends, tmp_path: Path) -> None:
    told(sends, configured(tmp_path))
    never, doubtful, not_sent, other = (sends.proposed(r) for r in (KEYED, KEYED, KEYED, KEYLESS))
    sends.tried(doubtful, UNKNOWN)
    sends.tried(not_sent, NotSent("refused"))
    assert told(sends, configured(tmp_path)) == []
    assert told(sends, configured(tmp_path, account="second")) == [never, doubtful, not_sent]
    assert {sends.state(one) for one in (never, doubtful, not_sent)} == {S.NEEDS_REVIEW}
    assert sends.state(other) is S.APPROVED
    assert sends.row(never).verdict == sends.row(not_sent).verdict == "was_not_sent"
    assert sends.row(doubtful).verdict == "nobody_knows"


def test_a_rotated_key_of_the_same_account_moves_nothing(sends: Sends, tmp_path: Path) -> None:
    told(sends, configured(tmp_path))
    doubtful = sends.proposed()
    sends.tried(doubtful, UNKNOWN)
    assert told(sends, configured(tmp_path, key="rotated")) == []
    sends.due_now(doubtful)
    assert sends.started(sends.claimed())


def test_the_judge_before_the_call_sees_it_too(sends: Sends, tmp_path: Path) -> None:
    """The configuration changes between the claim and the call."""
    told(sends, configured(tmp_path))
    sends.proposed()
    claimed = sends.claimed()
    told(sends, configured(tmp_path, account="second"))
    with pytest.raises(MayNotStart, match="another account"):
        sends.started(claimed)


def test_what_was_written_for_the_old_account_is_neither_approved_nor_sent_with_its_key(
    sends: Sends, tmp_path: Path
) -> None:
    told(sends, configured(tmp_path))
    to_approve, doubtful = sends.proposed(TO_APPROVE), sends.uncertain(KEYED)
    told(sends, configured(tmp_path, account="second"))
    act, seen = sends.act(sends.person("Ann")), sends.seen(to_approve)
    with pytest.raises(NotNow, match="has another account in the configuration now"):
        sends.decide(act, lambda tx: decisions.approve(tx, to_approve, seen, act))
    seen = sends.seen(doubtful)
    with pytest.raises(NotNow, match="Only a new key can go out there"):
        sends.decide(act, lambda tx: decisions.settle(tx, doubtful, seen, Decision.RESEND_SAME_KEY, act))
    assert sends.state(to_approve) is S.PROPOSED and sends.state(doubtful) is S.NEEDS_REVIEW


def test_a_new_key_is_for_the_account_of_now(sends: Sends, tmp_path: Path) -> None:
    told(sends, configured(tmp_path))
    old = sends.uncertain(KEYED)
    told(sends, configured(tmp_path, account="second"))
    done = agree(sends, ask(sends, old, sends.person("Ann")), sends.person("Bo", Role.ADMIN))
    made = sends.row(done.action_id)
    assert (made.account, made.state) == ("second", "approved")
    assert made.content_digest != sends.row(old).content_digest, "the digest names the account"
    sends.due_now(made.id)
    assert sends.started(sends.claimed("second"))


def test_two_people_mean_one_account(sends: Sends, tmp_path: Path) -> None:
    told(sends, configured(tmp_path))
    old = sends.uncertain(KEYED)
    request = ask(sends, old, sends.person("Ann"))
    told(sends, configured(tmp_path, account="second"))
    with pytest.raises(NotNow, match="another account in the configuration since"):
        agree(sends, request, sends.person("Bo", Role.ADMIN))
    assert sends.state(old) is S.NEEDS_REVIEW


def test_what_no_provider_serves_is_found(sends: Sends, tmp_path: Path) -> None:
    for _ in range(2):
        sends.proposed(KEYLESS)
    sends.proposed(KEYED)
    sends.sql("UPDATE nottwice.actions SET created_at = now() - interval '1 hour'")
    (one,) = sends.by_worker.run(lambda tx: accounts.unserved(tx, ["agentmail"]))
    assert (one.account, one.provider, one.sends) == ("inboxili", "inboxili", 2)
    assert 3590 < one.oldest_s < 3700
    assert told(sends, configured(tmp_path)) == [], "another worker may serve it"


def test_what_may_have_gone_out_at_another_address_is_not_repeated_here(sends: Sends, tmp_path: Path) -> None:
    """A key protects at the server that has seen it. What surely did not go out goes out through the new address."""
    first = configured(tmp_path)
    told(sends, first)
    doubtful, vanished, not_sent, never = (sends.proposed(rules(first)) for _ in range(4))
    sends.tried(doubtful, UNKNOWN)
    sends.tried(vanished, None)
    sends.tried(not_sent, NotSent("refused"))
    told(sends, configured(tmp_path, more=ELSEWHERE))
    for one in (doubtful, vanished):
        sends.due_now(one)
        claimed = sends.claimed("agentmail")
        with pytest.raises(MayNotStart, match="another address"):
            sends.started(claimed)
        assert sends.by_worker.run(lambda tx, lease=claimed.lease: hand_back(tx, lease)) is S.NEEDS_REVIEW
    for one in (not_sent, never):
        assert sends.tried(one, ACCEPTED) and sends.state(one) is S.SENT
    places = {a.place for a in sends.attempts(not_sent)}
    assert places == {"agentmail https://api.agentmail.to", "agentmail https://elsewhere.example"}


def test_another_spelling_of_the_same_address_moves_nothing(sends: Sends, tmp_path: Path) -> None:
    first = configured(tmp_path)
    told(sends, first)
    doubtful = sends.proposed(rules(first))
    sends.tried(doubtful, UNKNOWN)
    told(sends, configured(tmp_path, more='base_url = "https://API.agentmail.to:443/"'))
    sends.due_now(doubtful)
    assert sends.started(sends.claimed())


def test_an_address_that_is_put_back_protects_what_was_tried_there(sends: Sends, tmp_path: Path) -> None:
    first = configured(tmp_path)
    told(sends, first)
    doubtful, there = sends.proposed(rules(first)), sends.proposed(rules(first))
    sends.tried(doubtful, UNKNOWN)
    told(sends, configured(tmp_path, more=ELSEWHERE))
    sends.tried(there, UNKNOWN)
    assert sends.state(there) is S.APPROVED, "its only try was at the address of now"
    told(sends, first)
    sends.due_now(doubtful)
    assert sends.started(sends.claimed()).action_id == doubtful
    sends.due_now(there)
    with pytest.raises(MayNotStart, match="another address"):
        sends.started(sends.claimed())


def test_the_judge_asks_where_this_very_call_goes(sends: Sends, tmp_path: Path) -> None:
    """A worker may claim before it has told what it read."""
    first = configured(tmp_path)
    told(sends, first)
    doubtful = sends.proposed(rules(first))
    sends.tried(doubtful, UNKNOWN)
    sends.due_now(doubtful)
    claimed, place = sends.claimed(), "agentmail https://elsewhere.example"
    with pytest.raises(MayNotStart, match="another address"):
        sends.by_worker.run(lambda tx: start(tx, claimed.lease, place))
    assert sends.by_worker.run(lambda tx: hand_back(tx, claimed.lease, place)) is S.NEEDS_REVIEW


def test_another_kind_under_the_same_name_is_another_account(sends: Sends, tmp_path: Path) -> None:
    first = configured(tmp_path)
    told(sends, first)
    never, to_approve = sends.proposed(rules(first)), sends.proposed(rules(first, approval=True))
    told(sends, of_another_kind(tmp_path))
    claimed = sends.claimed()
    with pytest.raises(MayNotStart, match="another account"):
        sends.started(claimed)
    assert sends.by_worker.run(lambda tx: hand_back(tx, claimed.lease)) is S.NEEDS_REVIEW
    assert claimed.lease.action_id == never
    act, seen = sends.act(sends.person("Ann")), sends.seen(to_approve)
    with pytest.raises(NotNow, match="another account"):
        sends.decide(act, lambda tx: decisions.approve(tx, to_approve, seen, act))


def test_a_new_key_goes_where_the_provider_is_now(sends: Sends, tmp_path: Path) -> None:
    first = configured(tmp_path)
    told(sends, first)
    old = sends.uncertain(rules(first))
    told(sends, configured(tmp_path, more=ELSEWHERE))
    act, seen = sends.act(sends.person("Cy")), sends.seen(old)
    with pytest.raises(NotNow):
        sends.decide(act, lambda tx: decisions.settle(tx, old, seen, Decision.RESEND_SAME_KEY, act))
    request = ask(sends, old, sends.person("Ann"))
    told(sends, of_another_kind(tmp_path))
    with pytest.raises(NotNow, match="another address"):
        agree(sends, request, sends.person("Bo", Role.ADMIN))
    told(sends, configured(tmp_path, more=ELSEWHERE))
    done = agree(sends, request, sends.person("Di", Role.ADMIN))
    assert sends.row(done.action_id).place == "agentmail https://elsewhere.example"
