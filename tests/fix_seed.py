"""A believable house: work in every state, and sends of every verdict, made by the ledger's own functions.

What a process did an hour ago is done now and then moved into the past by the owner, who is no person, so that
the audit's trigger lets it pass.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from ledger import actions
from ledger.actions import answers
from ledger.database import Database
from ledger.records import (
    Email,
    Evidence,
    KindRules,
    Outcome,
    PointsTo,
    Policy,
    Proposal,
    Unknown,
    Worker,
    digest_of,
)

DAY_S = 86_400.0
SHIFTED = {
    "nottwice.actions": (
        "id",
        ("created_at", "review_since", "first_started_at", "settled_at", "evidence_until"),
    ),
    "nottwice.action_attempts": ("action_id", ("started_at", "answered_at", "abandoned_at")),
    "nottwice.evidence": ("action_id", ("observed_at",)),
}


def rules(kind: str, *, key: bool, cost: str = "high", why: str = "", approval: bool = False) -> KindRules:
    provider = "agentmail" if key else "inboxili"
    window = DAY_S if key else None
    return KindRules(
        kind, provider, provider, Policy.REVIEW, approval, window, 900.0, 300.0, DAY_S, cost, why
    )  # type: ignore[arg-type]


RECEIPT = rules("receipt", key=False, why="A second receipt can be booked twice")
REFUND = rules("refund_notice", key=True, why="A second notice reads like a second refund")
REPLY = rules("reply", key=True, cost="medium", why="The customer reads the same answer twice")
WELCOME = rules("welcome", key=True, cost="low", why="A second welcome is a nuisance")
ANSWER = rules(
    "answer", key=True, cost="medium", why="The customer reads the same answer twice", approval=True
)


@dataclass
class House:
    """Fills one database. Each method is one kind of thing that can stand in it; ids come back."""

    db: Database
    writer: UUID = field(default_factory=uuid4)
    worker: Worker = field(default_factory=lambda: Worker(uuid4(), "w-3f9a"))

    def run(self, sql: str, **values: object) -> None:
        self.db.run(lambda tx: tx.execute(sql, **values) and None)

    def workers(self, *named: tuple[str, float]) -> list[UUID]:
        """Workers by name, each with the seconds since its last sign."""
        ids = [uuid4() for _ in named]
        for id_, (name, silent_s) in zip(ids, named, strict=True):
            self.run(
                """INSERT INTO nottwice.workers (id, name, host, handles, started_at, seen_at)
                   VALUES (:id, :name, 'here', '{shop invoice.paid,agentmail message.received}',
                           now() - interval '3 hours', now() - make_interval(secs => :silent))""",
                id=id_,
                name=name,
                silent=silent_s,
            )
        return ids

    def events(
        self, n: int, *, state: str = "pending", type_: str = "invoice.paid", age_s: float = 3.2
    ) -> None:
        ended = "now()" if state == "failed" else "NULL"
        due = f"now() - make_interval(secs => {age_s})" if state == "pending" else "NULL"
        for _ in range(n):
            key = f"evt_{uuid4().hex}"
            self.run(
                f"""INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, state,
                                                 due_at, ended_at, accepted_at, last_error)
                    VALUES ('acme', 'shop', :type, :key, :digest, :digest, :state, {due}, {ended},
                            now() - make_interval(secs => :age), :error)""",
                type=type_,
                key=key,
                digest=digest_of(key),
                state=state,
                age=age_s,
                error="ValueError: the message cannot be read" if state == "failed" else None,
            )

    def claimed(self, worker: UUID, age_s: float, lease_s: float = 60.0) -> None:
        """One event in hand since `age_s`."""
        key = f"evt_{uuid4().hex}"
        self.run(
            """INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, state, due_at,
                                            attempts, claim_token, claimed_by, claimed_at, lease_until)
               VALUES ('acme', 'shop', 'invoice.paid', :key, :digest, :digest, 'processing', NULL, 1, gen_random_uuid(),
                       :worker, now() - make_interval(secs => :age), now() + make_interval(secs => :left))""",
            key=key,
            digest=digest_of(key),
            worker=worker,
            age=age_s,
            left=lease_s - age_s,
        )

    def counted(self, seed: int = 4) -> None:
        """An hour of deliveries with a storm of duplicates in it, and a day of answers."""
        chance = random.Random(seed)
        for ago in range(60):
            storm = 33 <= ago <= 37
            new = chance.randint(48, 70) + 20 * storm
            many = {
                "accepted": new,
                "duplicate": chance.randint(2, 7) + storm * chance.randint(30, 48),
                "completed": new,
            }
            for metric, n in many.items():
                self.count(metric, n, ago)
        for metric, n in {"sent": 2198, "unknown": 84, "not_sent": 27, "refused": 5}.items():
            self.count(metric, n, 0)

    def count(self, metric: str, n: int, minutes_ago: int = 0) -> None:
        self.run(
            """INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
               VALUES (date_trunc('minute', now()) - make_interval(mins => :ago), 'acme', :metric, :writer, :n)
               ON CONFLICT (minute, namespace, metric, writer) DO UPDATE SET n = counters.n + excluded.n""",
            ago=minutes_ago,
            metric=metric,
            writer=self.writer,
            n=n,
        )

    # ── Sends ─────────────────────────────────────────────────────────────────────────────────────────

    def proposed(self, kind: KindRules, email: Email, *, about: str, key: str = "") -> int:
        proposal = Proposal(
            "acme", key or f"{kind.kind}:{uuid4().hex}", kind, email.content(), email.to, about, event_id=None
        )
        return self.db.run(lambda tx: actions.propose(tx, proposal)).action_id

    def tried(self, action_id: int, account: str, *outcomes: Outcome | None) -> None:
        """One attempt an outcome; None: its worker vanished."""
        for outcome in outcomes:
            self.run(
                "DELETE FROM nottwice.provider_pauses"
            )  # a keyless account rests after three unknowns in a row
            self.run(
                "UPDATE nottwice.actions SET due_at = '-infinity' WHERE id = :id AND state = 'approved'",
                id=action_id,
            )
            claimed = self.db.run(lambda tx: actions.claim(tx, self.worker, [account], lease_s=60))
            assert claimed is not None and claimed.lease.action_id == action_id
            attempt = self.db.run(lambda tx, lease=claimed.lease: actions.start(tx, lease))  # type: ignore[misc]
            if outcome is None:
                self.run(
                    "UPDATE nottwice.actions SET lease_until = now() - interval '1 s' WHERE id = :id",
                    id=action_id,
                )
                self.db.run(lambda tx: actions.rescue(tx))
            else:
                self.db.run(
                    lambda tx, attempt=attempt, outcome=outcome: answers.record_answer(  # type: ignore[misc]
                        tx, attempt, outcome, chance=0, writer=self.writer
                    )
                )

    def aged(self, action_id: int, seconds: float) -> None:
        """Moves everything about a send into the past."""
        for table, (column, times) in SHIFTED.items():
            sets = ", ".join(f"{time} = {time} - make_interval(secs => :s)" for time in times)
            self.run(f"UPDATE {table} SET {sets} WHERE {column} = :id", s=seconds, id=action_id)

    def on_the_desk(self, action_id: int) -> None:
        """An uncertain send whose retries are over, so that it waits for a person."""
        self.run(
            """UPDATE nottwice.actions SET state = 'needs_review', due_at = NULL, review_since = now(), verdict = :v,
                      evidence_until = coalesce(evidence_until, now()), retry_until = now(), version = version + 1
               WHERE id = :id AND state = 'approved'""",
            id=action_id,
            v="safe_to_try_again",
        )

    def evidence(
        self,
        action_id: int,
        source: str,
        found: str,
        points_to: str,
        *,
        proof: bool = False,
        message_id: str | None = None,
    ) -> None:
        seen = Evidence(source, found, PointsTo(points_to), proof, datetime.now(UTC), message_id)
        self.db.run(lambda tx: answers.add_evidence(tx, action_id, seen))

    def uncertain(
        self, kind: KindRules, email: Email, *outcomes: Outcome | None, about: str = "", ago_s: float = 0.0
    ) -> int:
        """A send on the desk: tried, of unknown outcome, and waiting since `ago_s`."""
        action_id = self.proposed(kind, email, about=about)
        self.tried(action_id, kind.account, *(outcomes or (Unknown("no answer within 5 s"),)))
        self.on_the_desk(action_id)
        self.aged(action_id, ago_s)
        return action_id


def mail(
    to: str, subject: str, text: str = "Hello,\n\nthank you.\n\nAcme", sender: str = "billing@acme.example"
) -> Email:
    return Email(to=(to,), subject=subject, text=text, sender=sender)


LETTER = (
    "Hello Ana,\n\nwe have received your payment of EUR 1,240.00 for invoice INV-1042. Thank you.\n\n"
    "You find the receipt below.\n\nKind regards\nAcme billing"
)


@dataclass(frozen=True)
class Desk:
    """The sends of the full house that wait for a person."""

    refund: int
    receipt: int
    reply: int
    welcome: int
    second: int
    answers: tuple[int, ...]

    @property
    def uncertain(self) -> tuple[int, ...]:
        return (self.refund, self.receipt, self.reply, self.welcome)


def desk(house: House) -> Desk:
    """Four uncertain sends, one of each verdict; two to approve; one for which a second person was asked."""
    refund = house.uncertain(
        REFUND,
        mail("j.okafor@example.org", "Your refund RF-220"),
        Unknown("no answer within 5 s"),
        Unknown("Bad gateway", "502"),
        about="RF-220",
        ago_s=67_320,
    )
    receipt = house.uncertain(
        RECEIPT,
        mail("ana.ruiz@example.com", "Your receipt for invoice INV-1042", LETTER),
        about="INV-1042 paid",
        ago_s=8_040,
    )
    reply = house.uncertain(
        REPLY,
        mail("support@pаypal-help.example", "Re: cannot log in", sender="help@acme.example"),
        None,
        about="Re: cannot log in",
        ago_s=1_860,
    )
    house.evidence(reply, "AgentMail thread search", "One message near in time", "sent")
    welcome = house.uncertain(
        WELCOME,
        mail("li.wei@example.net", "Welcome to Acme", sender="hello@acme.example"),
        about="new account",
        ago_s=720,
    )
    house.evidence(welcome, "AgentMail look-up", "Failed: mailbox paused", "not_sent", proof=True)
    second = house.uncertain(
        RECEIPT,
        mail("m.costa@example.com", "Your receipt for invoice INV-1077"),
        about="INV-1077 paid",
        ago_s=900,
    )
    to_approve = tuple(
        house.proposed(ANSWER, mail(to, f"Re: refund {n}"), about=f"Re: refund {n}")
        for n, to in enumerate(("eva.horn@example.com", "tom.berg@example.org"), 71)
    )
    return Desk(refund, receipt, reply, welcome, second, to_approve)


def full(house: House) -> Desk:
    """The house of the pictures: 38 waiting, 18 in hand, one set aside, one that nobody handles."""
    names = [(f"w-{n}", 0.5) for n in ("3f9a", "77b1", "a012", "c4d8")] + [("w-0e11", 74.0)]
    ids = dict(zip((n for n, _ in names), house.workers(*names), strict=True))
    house.events(38)
    house.events(1, state="failed")
    house.events(1, type_="invoice.voided", age_s=400)
    chance = random.Random(2)
    for name, n in (("w-3f9a", 5), ("w-77b1", 4), ("w-a012", 3), ("w-c4d8", 3)):
        for _ in range(n):
            house.claimed(ids[name], round(chance.uniform(0.3, 22), 1))
    for name, age_s in (("w-a012", 43.0), ("w-c4d8", 51.5), ("w-0e11", 74.0)):
        house.claimed(ids[name], age_s)
    house.counted()
    made = desk(house)
    for n in range(6):
        house.proposed(REFUND, mail(f"someone{n}@example.com", "Your refund"), about=f"RF-3{n}")
    return made


@pytest.fixture
def house(database: Database) -> House:
    return House(database)
