"""What is known of a kind is what its code does: window, answers to a key, look-ups."""

from __future__ import annotations

from typing import get_args

import pytest

from ledger.provider_facts import FACTS
from ledger.records import InFlight
from ledger.settings.mailera import MaileraSpelling
from ledger.settings.providers import Kind
from worker.providers import agentmail
from worker.providers.mailera_answers import rows
from worker.providers.outcomes import ANY, Answer, classify

TABLES = {"agentmail": agentmail.TABLE, "mailera": rows(MaileraSpelling())}


def test_every_kind_has_its_facts() -> None:
    assert set(FACTS) == set(get_args(Kind))


@pytest.mark.parametrize("kind", FACTS)
def test_only_who_has_keys_has_answers_about_them(kind: str) -> None:
    facts = FACTS[kind]
    assert bool(facts.busy) == bool(facts.mismatch) == (facts.key_window_s is not None)


@pytest.mark.parametrize("kind", TABLES)
def test_what_it_says_of_a_key_is_in_its_table(kind: str) -> None:
    facts = FACTS[kind]
    for said in {facts.busy, facts.mismatch}:
        status, _, code = said.partition(" ")
        assert isinstance(classify(TABLES[kind], Answer(int(status), code)), InFlight)
    alarms = [rule for rule in TABLES[kind] if rule.other_content]
    assert bool(alarms) == facts.tells_apart
    assert [rule.code for rule in TABLES[kind] if rule.outcome is InFlight] == [ANY]
