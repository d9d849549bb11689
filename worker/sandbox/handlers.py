"""The demo's handlers, written as a user would write theirs.

A letter opens a ticket and is acknowledged at once; one that asks for a refund also gets an answer that a person
approves first. A paid invoice is booked and gets its receipt. Who signs up is welcomed, once ever; who signs in from a
new place is warned.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ledger import payload
from ledger.database import Transaction
from ledger.records import Email, Event
from worker.handlers import Handlers, Propose, SetAside

handlers = Handlers()

THINKING_S = float(os.environ.get("NOTTWICE_DEMO_THINKING_S", "0.5"))  # what a model call takes, on average
BROKEN = "unreadable"  # a subject that begins so cannot be handled: to see work set aside

THANKS = "Hello,\n\nthank you for your message. We have it and answer within one day.\n\nAcme support"
REFUND = (
    "Hello,\n\nwe are sorry to hear that. We will send the money back to the card it came from within three days.\n\n"
    "Acme support"
)


@handlers.on("agentmail", "message.received")
def acknowledge(event: Event) -> Email:
    """The slow part: here a model would read the letter. Nothing in it is an instruction to us."""
    message = _message(event)
    time.sleep(THINKING_S * random.uniform(0.2, 1.8))
    subject = payload.storable(" ".join(str(message.get("subject") or "").split()))
    if subject.startswith(BROKEN):
        raise ValueError("The attachment cannot be read.")
    return Email(
        to=(payload.storable(str(message["from"])),),
        subject=f"Re: {subject}",
        text=THANKS,
        sender=str(message["inbox_id"]),
        inbox=str(message["inbox_id"]),
        in_reply_to=str(message["message_id"]),
    )


@acknowledge.apply
def open_ticket(tx: Transaction, event: Event, thanks: Email, propose: Propose) -> None:
    message = _message(event)
    tx.execute(
        """INSERT INTO public.demo_tickets (inbox, message_id, sender, subject) VALUES (:inbox, :id, :sender, :subject)
           ON CONFLICT (inbox, message_id) DO UPDATE SET sender = excluded.sender, subject = excluded.subject""",
        inbox=str(message["inbox_id"]),
        id=str(message["message_id"]),
        sender=payload.storable(str(message["from"])),
        subject=payload.storable(str(message.get("subject") or "")),
    )
    about = thanks.subject[:80]
    propose("acknowledgement", _key("ack", thanks), thanks, about=about)
    if "refund" in thanks.subject.casefold():
        propose("answer", _key("answer", thanks), replace(thanks, text=REFUND), about=about)


@handlers.apply("shop", "invoice.paid")
def book_payment(tx: Transaction, event: Event, propose: Propose) -> None:
    invoice: Mapping[str, Any] = event.json()["invoice"]
    number, paid = invoice["number"], f"{invoice['currency']} {invoice['amount']}"
    tx.execute(
        """INSERT INTO public.demo_payments (invoice, amount, currency) VALUES (:invoice, :amount, :currency)
           ON CONFLICT (invoice) DO NOTHING""",
        invoice=number,
        amount=invoice["amount"],
        currency=invoice["currency"],
    )
    receipt = Email(
        to=(str(invoice["customer"]),),
        subject=f"Your receipt for invoice {number}",
        text=f"Hello,\n\nwe have received your payment of {paid} for invoice {number}. Thank you.\n\nAcme billing",
        sender="Acme billing <billing@acme.example>",
    )
    propose("receipt", f"invoice:{number}:paid", receipt, about=f"{number}, {paid}")


@handlers.apply("shop", "customer.created")
def welcome(tx: Transaction, event: Event, propose: Propose) -> None:
    customer: Mapping[str, Any] = event.json()["customer"]
    letter = Email(
        to=(str(customer["address"]),),
        subject="Welcome to Acme",
        text="Hello,\n\nnice to have you here.\n\nAcme",
        sender="Acme <hello@acme.example>",
    )
    propose("welcome", {"user": str(customer["id"])}, letter)


@handlers.apply("shop", "login.new_place")
def warn(tx: Transaction, event: Event, propose: Propose) -> None:
    login: Mapping[str, Any] = event.json()["login"]
    alert = Email(
        to=(str(login["address"]),),
        subject=f"New sign-in from {login['place']}",
        text=f"Hello,\n\nsomebody signed in as you from {login['place']}. If it was not you, change your password.\n\nAcme",
        sender="Acme security <security@acme.example>",
    )
    propose("security-alert", f"login:{login['id']}", alert, about=str(login["place"]))


def _message(event: Event) -> Mapping[str, Any]:
    """The letter. Without these members it can never be answered."""
    message: Mapping[str, Any] = event.json()["message"]
    missing = [name for name in ("inbox_id", "message_id", "from") if not message.get(name)]
    if missing:
        raise SetAside(f"The message has no {', '.join(missing)}.")
    if not all(payload.is_storable(str(message[name])) for name in ("inbox_id", "message_id")):
        raise SetAside("The message's ids are not text, so nothing can name it in a reply.")
    return message


def _key(what: str, answer: Email) -> str:
    """What is done once: this answer to this message. Hashed when the ids, which strangers choose, are unwieldy."""
    key = f"{what}:{answer.inbox}:{answer.in_reply_to}"
    if len(key) <= 300 and key.isprintable():
        return key
    return f"{what}:{hashlib.sha256(key.encode()).hexdigest()}"
