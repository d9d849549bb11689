"""SND-12: one action for each recipient, so that what failed is tried again and what succeeded is not."""

from __future__ import annotations

from collections import Counter
from functools import partial

from ledger.records import Email, Event
from ledger.settings import load
from tests.fix_sandbox import Sandbox
from tests.fix_sender import Senders, pump_until
from tests.fix_worker import WITHIN_S, Workshop
from worker.handlers import Handlers, Propose
from worker.trying.events import Working

PEOPLE = [f"reader{n}@example.com" for n in range(1, 41)]
DUE = "UPDATE nottwice.events SET due_at = now() WHERE due_at IS NOT NULL"
AGAIN = "UPDATE nottwice.actions SET due_at = now() WHERE state = 'approved' "


def are_sent(workshop: Workshop, which: str, marked: str, sent: int) -> bool:
    """Whether so many are; what waits to be tried again is due, whatever a busy machine kept it from."""
    workshop.run(AGAIN + which, marked=marked)
    return bool(workshop.value("SELECT count(*) >= :n FROM nottwice.actions WHERE state = 'sent'", n=sent))


def test_snd_12_forty_recipients_are_forty_sends_and_a_retry_begins_at_the_one_that_failed(
    workshop: Workshop, sandbox: Sandbox, senders: Senders
) -> None:
    handlers = Handlers()

    @handlers.apply("shop", "newsletter")
    def write(tx: object, event: Event, propose: Propose) -> None:
        for number, address in enumerate(PEOPLE, 1):
            if number == 25 and event.run.attempt == 1:
                raise ConnectionError("the 25th could not be written")
            mail = Email((address,), "News", "All is well.", inbox="in-1", sender="in-1")
            propose("news", f"news:{event.event_key}:{address}", mail)

    workshop.accept("newsletter")
    sender = senders(timeout_s=30.0)
    working = Working(workshop.database, load(workshop.folder / "nottwice.toml"), handlers)
    assert [one.ending for one in working.all_due(1)] == ["retried"]
    assert workshop.value("SELECT count(*) FROM nottwice.actions") == 0, "nothing of a failed try is left"
    workshop.run(DUE)
    assert [one.ending for one in working.all_due(1)] == ["completed"]

    (marked,) = workshop.rows("SELECT reference FROM nottwice.actions WHERE action_key LIKE '%reader25@%'")
    sandbox.faults({"match": marked.reference, "status": 500, "count": 2})
    for others, sent in (
        ("AND reference <> :marked", 39),
        ("AND :marked <> ''", 40),
    ):  # the 25th is tried after all others
        pump_until(sender, partial(are_sent, workshop, others, marked.reference, sent), WITHIN_S)
    assert Counter(address for mail in sandbox.mails for address in mail["recipients"]) == Counter(PEOPLE)
    asked = Counter(request["idempotency_key"] for request in sandbox.requests)
    assert sorted(asked.values()) == [1] * 39 + [3]
