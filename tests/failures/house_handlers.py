"""Handlers of the failure tests: each leaves one row an event, so that a second run would be seen."""

from __future__ import annotations

import os
import signal

from ledger.database import Transaction
from ledger.records import Email, Event
from worker.handlers import Handlers, Propose

handlers = Handlers()


def leave_a_row(tx: Transaction, event: Event) -> None:
    tx.execute(
        "INSERT INTO public.effects (event_key, run_by) VALUES (:key, :pid)",
        key=event.json()["id"],
        pid=os.getpid(),
    )


@handlers.on("shop", "order.placed")
def think(event: Event) -> str:
    return "thought"


@think.apply
def place(tx: Transaction, event: Event, thought: str, propose: Propose) -> None:
    assert thought == "thought"
    leave_a_row(tx, event)


@handlers.on("shop", "message.received")
def write_answer(event: Event) -> Email:
    return Email(
        to=("customer@example.com",),
        subject="Re: hello",
        text="We have it.",
        inbox="support@acme.example",
        in_reply_to=f"<{event.json()['id']}@example.com>",
    )


@write_answer.apply
def answer(tx: Transaction, event: Event, email: Email, propose: Propose) -> None:
    leave_a_row(tx, event)
    propose("answer", f"answer:{event.json()['id']}", email)


@handlers.apply("shop", "invoice.paid")
def receipt(tx: Transaction, event: Event, propose: Propose) -> None:
    leave_a_row(tx, event)
    email = Email(
        to=("payer@example.com",), subject="Receipt", text="Thank you.", sender="billing@acme.example"
    )
    propose("receipt", f"receipt:{event.json()['id']}", email)


@handlers.apply("shop", "order.broken")
def broken(tx: Transaction, event: Event, propose: Propose) -> None:
    leave_a_row(tx, event)
    raise ValueError("this order cannot be read")


@handlers.on("shop", "order.deadly")
def deadly(event: Event) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@deadly.apply
def never(tx: Transaction, event: Event, prepared: None, propose: Propose) -> None:
    leave_a_row(tx, event)
