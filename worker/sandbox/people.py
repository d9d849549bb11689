"""Who writes to the demo, and what. All invented; the addresses lead nowhere."""

from __future__ import annotations

import random
import secrets

from ledger.simulated import examples
from worker.sandbox.handlers import BROKEN

PEOPLE = (
    "Ana Ruiz <ana.ruiz@example.com>",
    "James Okafor <j.okafor@example.org>",
    "李伟 <li.wei@example.net>",
    "Marc Dubois <m.dubois@example.com>",
    "Søren Holm <soren.holm@example.org>",
    "Priya Nair <priya.n@example.net>",
    "Tomasz Kowalski <tomasz.k@example.com>",
    "סיון לוי <sivan@example.org>",
    "m.costa@example.com",
    "Acme billing <billing@аcme.example>",  # a look-alike: its first letter is Cyrillic
)
LETTERS = (
    ("Cannot log in", "Hello, my password is not taken any more since yesterday. Can you help?"),
    ("Where is my order?", "I ordered eleven days ago and have not heard anything. Order 88-1204."),
    (
        "¿Cómo cambio mi dirección?",
        "Hola, me he mudado y quisiera cambiar la dirección de entrega. ¡Gracias!",
    ),
    ("Facture manquante", "Bonjour, il me manque la facture du mois de septembre. Merci d'avance."),
    ("請問如何退貨", "您好，我收到的商品尺寸不合，請問該如何退貨？謝謝。"),
    ("Lieferung in die Schweiz", "Guten Tag, liefern Sie auch in die Schweiz? Und was kostet das?"),
    ("איך מחליפים מוצר?", "שלום, קיבלתי את הצבע הלא נכון. איך מחליפים?"),
    ("Question about **prices**", "Is the [price](javascript:alert(1)) in the catalogue with tax?"),
    ("Please send the manual", "I have lost the manual of the lamp. Could you send it as PDF?"),
)
HOSTILE = (
    "<img src=x onerror=alert(1)> <script>alert(2)</script> my account",
    "<b>Please</b> look at my account.",
)
REFUND = ("Refund, please", "The cup arrived in two halves. I would like my money back.")
PLACES = ("Lisbon", "Kraków", "Osaka", "São Paulo")
AMOUNTS = ("12.00", "49.00", "89.90", "129.00", "240.50", "1999.00")


def message(letter: tuple[str, str] | None = None) -> bytes:
    """A customer's letter, as AgentMail reports it."""
    subject, text = letter or (HOSTILE if random.random() < 0.03 else random.choice(LETTERS))
    return examples.message_received(random.choice(PEOPLE), subject, text)


def broken() -> bytes:
    """One that its handler cannot read, to see work tried again and set aside."""
    return message((f"{BROKEN} attachment", "See the attachment."))


def refund() -> bytes:
    """A letter whose answer a person must approve."""
    return message(REFUND)


def invoice_number() -> str:
    return f"INV-{secrets.randbelow(900_000) + 100_000}"


def payment(number: str) -> dict[str, object]:
    """A paid invoice, as the shop reports it."""
    return examples.invoice_paid(number, random.choice(PEOPLE), random.choice(AMOUNTS))


def signup() -> dict[str, object]:
    """Somebody signs up, as the shop reports it."""
    customer = {"id": f"u_{secrets.token_hex(4)}", "address": random.choice(PEOPLE)}
    return examples.shop_event("customer.created", customer=customer)


def login() -> dict[str, object]:
    """Somebody signs in from where they never were."""
    place = {
        "id": f"l_{secrets.token_hex(4)}",
        "address": random.choice(PEOPLE),
        "place": random.choice(PLACES),
    }
    return examples.shop_event("login.new_place", login=place)
