"""A believable record: some days of decisions, refusals and what a policy did, sealed."""

from __future__ import annotations

from uuid import uuid4

from ledger.audit import seals
from ledger.database import Database, Transaction
from ledger.records import Role
from ledger.sign_in import people

# Hours ago, who, act, outcome, states before and after, what was known, why, what was looked at, detail.
WHY = ("Customer wrote that nothing came", "Provider's own log")
ACTS = (
    (0.0, "Bo", "agreed", "done", "needs_review", "closed", "nobody_knows", "The log of the provider is empty", "Provider's own log", ""),
    (0.3, "Ana", "asked a second person: send again with a new key", "done", "needs_review", "needs_review", "nobody_knows", *WHY, ""),
    (0.9, "Ana", "closed as sent", "refused", "closed", "closed", "", "It is in the sent folder", "Our own records",
     "Not done. Bo Lindqvist was first: closed without sending, at 09:41:16 UTC. Nothing of yours was carried out."),
    (0.91, "Bo", "closed without sending", "done", "needs_review", "closed", "nobody_knows", "Too late by now", "Only this page", ""),
    (2.1, "Ana", "send again with the same key", "done", "needs_review", "approved", "safe_to_try_again", *WHY, ""),
    (2.2, "Ana", "reveal", "done", None, None, "", "", "", ""),
    (5.0, "", "dropped: a one-time code is of no use any more", "done", "needs_review", "closed", "", "policy drop", "", ""),
    (7.5, "Eva", "reveal", "done", None, None, "", "Ticket 4711: umlauts are broken", "", ""),
    (7.6, "Eva", "reveal", "refused", "sent", "sent", "", "", "", "Nothing was shown. Please say why you need to read it."),
    (26.0, "Bo", "approved", "done", "proposed", "approved", "safe_to_try_again", "", "", ""),
    (26.5, "Bo", "try again", "failed", "failed", "failed", "", "The mailbox is open again", "Provider's own log", "DiskFull"),
)  # fmt: skip
PEOPLE = {
    "Ana": ("Ana Soto", Role.SUPPORT),
    "Bo": ("Bo Lindqvist", Role.ADMIN),
    "Eva": ("Eva Horn", Role.ENGINEER),
}
INSERT = """
INSERT INTO nottwice.audit (at, person_id, role, act, entity, entity_id, outcome, state_before, state_after, known, why,
                            looked_at, detail, form_id)
VALUES (now() - make_interval(secs => :ago_s), :person, :role, :act, 'action', :send, :outcome, :before, :after, :known,
        :why, CAST(:looked_at AS text[]), :detail, :form)
"""


def record(db: Database, sends: list[int], *, days: int = 6) -> None:
    """The same few hours again for each day, the oldest first; a policy's day is shorter than a person's."""
    who = {short: db.run(lambda tx, given=given: _known(tx, *given)) for short, given in PEOPLE.items()}  # type: ignore[misc]
    for day in range(days, -1, -1):
        for n, act in enumerate(reversed(ACTS)):
            db.run(lambda tx, day=day, n=n, act=act: _insert(tx, who, sends[n % len(sends)], day, act))  # type: ignore[misc]
    while db.run(seals.seal):
        pass


def _known(tx: Transaction, name: str, role: Role) -> int:
    email = f"{name.lower().replace(' ', '.')}@acme.example"
    return people.person(tx, people.LOCAL, email, name, email, role).id


def _insert(tx: Transaction, who: dict[str, int], send: int, day: int, act: tuple) -> None:  # type: ignore[type-arg]
    hours, short, what, outcome, before, after, known, why, looked_at, detail = act
    tx.execute(
        INSERT,
        ago_s=(day * 48 + hours) * 3600,
        person=who.get(short),
        role=PEOPLE[short][1].value if short else "policy",
        act=what,
        send=send,
        outcome=outcome,
        before=before,
        after=after,
        known=known,
        why=why,
        looked_at=[looked_at] if looked_at else [],
        detail=detail,
        form=uuid4() if short else None,
    )
