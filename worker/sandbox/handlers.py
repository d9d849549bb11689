"""The demo's handlers, written as a user would write theirs."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from typing import Any

from ledger.database import Transaction
from ledger.records import Email, Event
from worker.handlers import Handlers, Propose

handlers = Handlers()

THINKING_S = float(os.environ.get("NOTTWICE_DEMO_THINKING_S", "0.6"))
BROKEN = "unreadable"  # a subject with this word breaks the handler: to see work set aside


@handlers.on("agentmail", "message.received")
def acknowledge(event: Event) -> Email:
    """The slow part: what a model call would be."""
    message = event.json()["message"]
    time.sleep(THINKING_S * random.uniform(0.2, 1.5))
    subject = " ".join(str(message.get("subject", "")).split())
    if BROKEN in subject:
        raise ValueError("the message cannot be read")
    return Email(
        to=(str(message["from"]),),
        subject=f"Re: {subject}",
        text="Hello,\n\nthank you for your message. We have it and answer within one day.\n\nAcme support",
        sender=message["inbox_id"],
        inbox=message["inbox_id"],
        in_reply_to=message["message_id"],
    )


@acknowledge.apply
def open_ticket(tx: Transaction, event: Event, answer: Email, propose: Propose) -> None:
    message = event.json()["message"]
    tx.execute(
        """INSERT INTO public.demo_tickets (message_id, sender, subject) VALUES (:id, :sender, :subject)
           ON CONFLICT (message_id) DO NOTHING""",
        id=message["message_id"],
        sender=str(message["from"]),
        subject=str(message.get("subject", "")),
    )
    wants_a_person = "refund" in answer.subject.lower()
    kind = "answer" if wants_a_person else "acknowledgement"
    propose(kind, f"{kind}:{answer.inbox}:{answer.in_reply_to}", answer, about=answer.subject[:80])


@handlers.apply("shop", "invoice.paid")
def book_payment(tx: Transaction, event: Event, propose: Propose) -> None:
    invoice: Mapping[str, Any] = event.json()["invoice"]
    tx.execute(
        """INSERT INTO public.demo_payments (invoice, amount, currency) VALUES (:invoice, :amount, :currency)
           ON CONFLICT (invoice) DO NOTHING""",
        invoice=invoice["number"],
        amount=invoice["amount"],
        currency=invoice["currency"],
    )
    receipt = Email(
        to=(invoice["customer"],),
        subject=f"Your receipt for invoice {invoice['number']}",
        text=(
            f"Hello,\n\nwe have received your payment of {invoice['currency']} {invoice['amount']} "
            f"for invoice {invoice['number']}. Thank you.\n\nKind regards\nAcme billing"
        ),
        sender="billing@acme.example",
    )
    propose("receipt", f"invoice:{invoice['number']}:paid", receipt, about=f"{invoice['number']} paid")
