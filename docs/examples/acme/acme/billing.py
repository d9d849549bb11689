"""Stripe's webhook: a paid invoice is booked and gets one receipt; a subscription's state follows the latest word."""

from decimal import Decimal

from acme.registry import handlers
from ledger.records import Email
from worker.handlers import SetAside

# Stripe counts these in whole units, all others in hundredths (docs.stripe.com/currencies, "Zero-decimal currencies").
WHOLE = (
    "bif",
    "clp",
    "djf",
    "gnf",
    "jpy",
    "kmf",
    "krw",
    "mga",
    "pyg",
    "rwf",
    "ugx",
    "vnd",
    "vuv",
    "xaf",
    "xof",
    "xpf",
)


@handlers.on("stripe", "invoice.paid")
def write_the_receipt(event):
    """The slow part. Writing a few lines is quick; drawing a PDF or asking another service would stand here too."""
    invoice = event.json()["data"]["object"]
    if not invoice.get("number") or not invoice.get("customer_email"):
        raise SetAside(f"Invoice {invoice.get('id')} has no number, or nobody to write to.")
    return Email(
        to=(invoice["customer_email"],),
        subject=f"Your receipt for {invoice['number']}",
        text=f"Hello,\n\nwe have received {amount(invoice)} for invoice {invoice['number']}. Thank you.\n\nAcme billing",
        inbox="billing@acme.example",
    )


@write_the_receipt.apply
def book_the_payment(tx, event, receipt, propose):
    invoice = event.json()["data"]["object"]
    tx.execute(
        """INSERT INTO payments (invoice, customer, amount, currency) VALUES (:invoice, :customer, :amount, :currency)
           ON CONFLICT (invoice) DO NOTHING""",
        invoice=invoice["number"],
        customer=invoice["customer_email"],
        amount=invoice["amount_paid"],
        currency=invoice["currency"],
    )
    # Stripe can make two events of one payment; the key names the receipt, so there is one all the same.
    propose(
        "receipt",
        f"invoice:{invoice['number']}:paid",
        receipt,
        about=f"{invoice['number']}, {amount(invoice)}",
    )


@handlers.apply("stripe", "customer.subscription.updated")
def keep_the_subscription(tx, event, propose):
    """An apply part alone. Stripe promises no order: what is older than what we have is refused, in the same statement."""
    subscription = event.json()["data"]["object"]
    tx.execute(
        """INSERT INTO subscriptions AS s (id, status, as_of, as_of_id) VALUES (:id, :status, :at, :event_id)
           ON CONFLICT (id) DO UPDATE SET status = excluded.status, as_of = excluded.as_of, as_of_id = excluded.as_of_id
           WHERE (s.as_of, s.as_of_id) <= (excluded.as_of, excluded.as_of_id)""",
        id=subscription["id"],
        status=subscription["status"],
        at=event.at,
        event_id=event.id,
    )


def amount(invoice):
    """`EUR 49.00`, `JPY 4900`."""
    whole = invoice["currency"] in WHOLE
    return f"{invoice['currency'].upper()} {Decimal(invoice['amount_paid']).scaleb(0 if whole else -2)}"
