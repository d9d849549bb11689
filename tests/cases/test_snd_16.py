"""SND-16: a handler and an application answer the same message at the same moment, each with its own words."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

from ledger.records import Email, Event, Proposed
from ledger.settings import load
from tests.fix_application import Application
from tests.fix_sandbox import Sandbox
from tests.fix_sender import Senders, pump_until
from tests.fix_worker import WITHIN_S, Workshop
from worker.handlers import Handlers, Propose
from worker.trying.events import Worked, Working

ROUNDS = 20
SETTLED = "SELECT count(*) = {} FROM nottwice.actions WHERE state = 'sent'"


def reply(text: str) -> Email:
    return Email(("ann@example.com",), "Re: hello", text, inbox="in-1", in_reply_to="<m@example.com>")


def test_snd_16_two_roads_to_one_reply_keep_one_text_and_send_one_mail(
    workshop: Workshop, application: Application, sandbox: Sandbox, senders: Senders
) -> None:
    sender = senders(timeout_s=15.0)
    settings = load(workshop.folder / "nottwice.toml")
    application.settings = settings
    gate, handlers, from_handler = threading.Barrier(2), Handlers(), list[Proposed]()
    met: set[int] = set()

    @handlers.on("shop", "message")
    def think(event: Event) -> Email:
        return reply(f"The handler's, {event.id}")

    @think.apply
    def answer(tx: object, event: Event, thought: Email, propose: Propose) -> None:
        if event.id not in met:  # a group that waits for the other's row is undone, and it runs again
            met.add(event.id)
            gate.wait(WITHIN_S)
        from_handler.append(propose("answer", f"answer:{event.id}", thought))

    def works() -> list[Worked]:
        return Working(workshop.database, settings, handlers).all_due()

    connection, ends = application.psycopg(), []
    with ThreadPoolExecutor(1) as pool:
        for _ in range(ROUNDS):
            (event,) = workshop.accept("message")
            working = pool.submit(works)
            gate.wait(WITHIN_S)
            with connection.transaction():
                mine = application.propose(connection, f"answer:{event}", "The application's", kind="answer")
            ends += [one.ending for one in working.result(WITHIN_S)]
            theirs = from_handler[-1]
            assert mine.action_id == theirs.action_id
            assert sorted([(mine.created, mine.same_content), (theirs.created, theirs.same_content)]) == [
                (False, False),
                (True, True),
            ]
            stored = workshop.value(
                "SELECT content FROM nottwice.action_contents WHERE action_id = :id", id=mine.action_id
            )
            winner = "The application's" if mine.created else f"The handler's, {event}"
            assert json.loads(bytes(stored))["text"] == winner
    assert ends == ["completed"] * ROUNDS, "who was second has not failed"
    pump_until(sender, lambda: workshop.value(SETTLED.format(ROUNDS)))
    assert len(sandbox.mails) == len(sandbox.requests) == ROUNDS
