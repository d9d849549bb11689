"""A short campaign against a real receiver, the same requests each time; `make fuzz` is the long one."""

from __future__ import annotations

from random import Random

import pytest

from ledger.database import Database
from ledger.receiver import sources
from ledger.settings import load
from tests.fix_receiver import Receiver, Start
from tests.fuzz import adapters
from tests.fuzz.campaign import Broken, Campaign
from tests.fuzz.deliveries import CONFIG, Deliveries, Kind

INPUTS, EXAMPLES = 1_500, 600
LOST = "CREATE RULE lost AS ON INSERT TO nottwice.quarantine DO INSTEAD NOTHING"


@pytest.fixture
def receiver(receivers: Start, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """With a source of every kind, whose settings are this process's too."""
    started = receivers(CONFIG)
    for name, value in started.environment.items():
        if name.startswith("NOTTWICE_"):
            monkeypatch.setenv(name, value)
    return started


def test_no_content_makes_a_5xx_gets_lost_or_cannot_be_shown(receiver: Receiver, database: Database) -> None:
    settings = load()
    campaign = Campaign(receiver, settings, database, seed=1)
    campaign.run(INPUTS)
    assert {kind for kind, _ in campaign.answers} == set(Kind)
    assert all(campaign.counts.values()), "it went past one of the tables"
    assert adapters.check(settings, EXAMPLES, derandomize=True) > EXAMPLES // 2
    word = b'{"id": "null", "type": "invoice.paid", "created": 1}'  # a key, where the sender wrote it as text
    adapters.holds(sources.adapters(settings)["stripe"], settings.sources["stripe"], word)


def test_the_same_seed_makes_the_same_requests(receiver: Receiver) -> None:
    settings = load()
    one, other = (Deliveries(settings, Random(7)) for _ in range(2))
    for _ in range(300):
        a, b = one.one(), other.one()
        assert (a.kind, a.source, a.path, len(a.plain)) == (b.kind, b.source, b.path, len(b.plain))


def test_what_is_lost_is_found_out(receiver: Receiver, database: Database) -> None:
    """What the campaign looks for, done to it."""
    campaign = Campaign(receiver, load(), database, seed=1)
    database.run(lambda tx: tx.execute(LOST) and None)
    with pytest.raises(Broken, match="were acknowledged"):
        campaign.run(200)
