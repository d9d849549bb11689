"""What the console says of keys and contents that are kept for a time, and of those that are gone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from streamlit.testing.v1 import AppTest

from dashboard.words import clock, day
from ledger.records import Accepted
from ledger.retention import prune
from ledger.settings import RetentionSettings
from tests.dashboard.conftest import App
from tests.fix_seed import REPLY, House, mail
from tests.fix_story import told


def captions(at: AppTest) -> list[str]:
    assert not at.exception, at.exception
    return [caption.value for caption in at.caption]


def one(house: House, sql: str, **values: object) -> Any:
    return house.db.run(lambda tx: tx.one(sql, **values))[0]


def older(house: House, days: float) -> None:
    """What so many days do to a house: events were received and ended, actions were settled that much earlier."""
    for table, columns in (("events", ("accepted_at", "ended_at")), ("actions", ("settled_at",))):
        sets = ", ".join(f"{column} = {column} - make_interval(days => {days})" for column in columns)
        house.run(f"UPDATE nottwice.{table} SET {sets}")
    list(prune(house.db, RetentionSettings()))


def settled(house: House) -> int:
    action_id = house.proposed(REPLY, mail("ann@example.com", "Re: Hello"), about="Hello", key="reply:7")
    house.tried(action_id, "agentmail", Accepted("<m@agentmail>"))
    return action_id


def test_an_event_says_until_when_its_key_makes_a_duplicate(app: App, house: House) -> None:
    made = told(house)
    at = one(house, "SELECT accepted_at FROM nottwice.events WHERE id = :id", id=made.ignored)
    until = clock(at + timedelta(days=31), at)
    said = captions(app("events", event=str(made.ignored)))
    assert f"Kept until {until} UTC. The same key is a duplicate until then, and a new event after." in said
    assert any(
        words.startswith("By the periods in the configuration as this console read it, ") for words in said
    )
    open_ends = captions(app("events", event=str(made.waiting)))
    assert any(words.startswith("Kept while this or a send of it is open, and until ") for words in open_ends)
    older(house, 32)
    said = captions(app("events", event=str(made.ignored)))
    assert any(words.startswith("No longer kept. The same key is a new event now") for words in said)
    assert "The content is no longer kept. What became of it is." in said


def test_a_send_says_until_when_its_key_stands_and_loses_its_text_before(app: App, house: House) -> None:
    action_id = settled(house)
    at = one(house, "SELECT settled_at FROM nottwice.actions WHERE id = :id", id=action_id)
    until = f"Its own key is kept until {day(at + timedelta(days=400))}. Until then nothing else goes out under it;"
    assert any(words.startswith(until) for words in captions(app("review", send=str(action_id))))
    older(house, 31)
    page = app("review", send=str(action_id))
    assert "The text and its recipients are no longer kept. Their digest is." in captions(page)
    assert any("(no longer kept)" in str(block.proto.body) for block in page.main if block.type == "html")
    older(house, 370)
    said = captions(app("review", send=str(action_id)))
    assert "Its own key is no longer kept. The same key would be a new send now." in said


def test_what_left_quarantine_says_so_at_its_address(app: App, house: House) -> None:
    made = told(house)
    house.run("UPDATE nottwice.quarantine SET last_seen_at = last_seen_at - interval '91 days'")
    list(prune(house.db, RetentionSettings()))
    at = app("events", quarantined=str(made.quarantined))
    assert "The content is no longer kept. Where it came from and why it could not be used is." in captions(
        at
    )
    assert [title.value for title in app("events", show="quarantine").title] == ["Nothing is in quarantine."]
