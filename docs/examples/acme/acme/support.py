"""The support inbox: a letter becomes a ticket, and an answer that a person lets go out."""

import hashlib

from acme import model
from acme.registry import handlers
from ledger.payload import storable
from ledger.records import Email
from worker.handlers import RetryLater, SetAside

RESERVE_S = 5.0  # of the handler's time, for what comes after the model


@handlers.on("support", "message.received")
async def draft_an_answer(event):
    """The slow part: no transaction is open, so it may take its time."""
    letter = letter_of(event)
    try:
        text = await model.draft(
            letter["subject"], letter["text"], within_s=event.run.remaining_s() - RESERVE_S
        )
    except model.Busy as busy:
        raise RetryLater(busy.again_in_s, str(busy)) from busy  # it is nobody's fault: the try does not count
    return Email(
        to=(letter["sender"],),
        subject=f"Re: {letter['subject']}",
        text=text,
        inbox=letter["inbox"],
        in_reply_to=letter["message"],
    )


@draft_an_answer.apply
def open_the_ticket(tx, event, answer, propose):
    """The apply part: letter, ticket, proposal and "this event is done" are one commit. Run again, it changes nothing."""
    letter = letter_of(event)
    tx.execute(
        """INSERT INTO letters (inbox, message, thread, sender, subject) VALUES (:inbox, :message, :thread, :sender, :subject)
           ON CONFLICT (inbox, message) DO NOTHING""",
        **{name: letter[name] for name in ("inbox", "message", "thread", "sender", "subject")},
    )
    # The latest letter's words stay, whichever event is worked last; the same event passes again.
    tx.execute(
        """INSERT INTO tickets AS t (thread, customer, subject, as_of, as_of_id)
           VALUES (:thread, :sender, :subject, :at, :event_id)
           ON CONFLICT (thread) DO UPDATE SET subject = excluded.subject, as_of = excluded.as_of, as_of_id = excluded.as_of_id
           WHERE (t.as_of, t.as_of_id) <= (excluded.as_of, excluded.as_of_id)""",
        thread=letter["thread"],
        sender=letter["sender"],
        subject=letter["subject"],
        at=event.at,
        event_id=event.id,
    )
    # Counted, not counted up: an event may be worked again.
    tx.execute(
        "UPDATE tickets SET letters = (SELECT count(*) FROM letters WHERE thread = :thread) WHERE thread = :thread",
        thread=letter["thread"],
    )
    propose("answer", answer_key(letter), answer, about=letter["subject"][:80])


def answer_key(letter):
    """What goes out once: the answer to this message in this inbox. Hashed, because strangers choose message ids."""
    named = f"{letter['inbox']}\n{letter['message']}"
    return f"answer:{hashlib.sha256(named.encode()).hexdigest()}"


def letter_of(event):
    """What we need of a letter. Without it nobody can ever answer, so a person should look."""
    message = event.json()["message"]
    missing = [name for name in ("inbox_id", "message_id", "thread_id", "from") if not message.get(name)]
    if missing:
        raise SetAside(f"The letter has no {', '.join(missing)}.")
    return {
        "inbox": storable(message["inbox_id"]),
        "message": storable(message["message_id"]),
        "thread": storable(message["thread_id"]),
        "sender": storable(message["from"]),
        "subject": storable(" ".join((message.get("subject") or "").split())),
        "text": message.get("text") or "",
    }
