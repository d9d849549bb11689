"""The failure table's row on expiry: a replay after the ledger has given up the event's key."""

from __future__ import annotations

from tests.failures.house import House, event, until

PACE = "\n[retention]\nround_every_s = 0.2\npause_s = 0.1\n"
LATER = "interval '40 days'"


def test_replay_after_the_ledgers_expiry_is_a_new_event_and_no_second_email(chain: House) -> None:
    """The worker itself gives up the key. The handler runs again, and proposes the send that stands already."""
    with (chain.home / "house.toml").open("a") as file:
        file.write(PACE)
    chain.sandbox()
    chain.receiver()
    worker = chain.worker()
    key, body = event("message.received")
    assert chain.post(body) == 200
    until(lambda: chain.action_state(key) == "sent" and chain.state(key) == "completed")
    age(chain)
    until(lambda: chain.value("SELECT count(*) FROM nottwice.events WHERE key_digest IS NULL") == 1)
    assert chain.post(body) == 200
    until(lambda: chain.effects(key) == 2)  # a new event is worked like any other
    until(lambda: chain.value("SELECT count(*) FROM nottwice.events WHERE state = 'completed'") == 2)
    assert chain.rows("SELECT state, content_gone FROM nottwice.actions") == [("sent", True)]
    assert chain.post(body) == 200  # within the new event's time: a duplicate
    assert chain.value("SELECT sum(deliveries) FROM nottwice.duplicates") == 1
    assert len(chain.mails() or []) == len(chain.requests() or []) == 1
    until(lambda: '"pruned"' in chain.log(worker))


def age(chain: House) -> None:
    """What forty days do to all that has happened so far."""
    with chain.database.transaction() as tx:
        tx.execute(
            f"UPDATE nottwice.events SET accepted_at = accepted_at - {LATER}, ended_at = ended_at - {LATER}"
        )
        tx.execute(
            f"UPDATE nottwice.actions SET created_at = created_at - {LATER}, settled_at = settled_at - {LATER}"
        )
