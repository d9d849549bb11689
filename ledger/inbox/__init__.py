"""The front door's one transaction: accept many deliveries, each durable exactly once.

Accept is two statements, insert then read: a single one returns nothing to the second of two racing deliveries.
Duplicates never rewrite the stored row. What the caller acknowledges is durable when its transaction has committed,
and every path writes something (an event, a counter), so that even a duplicate waits for a synchronous standby.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

from ledger import payload
from ledger.database import Transaction
from ledger.database.asking import Asking, statement
from ledger.database.columns import Bytes, Flags, Moments, SmallNumbers, Texts
from ledger.errors import Unavailable
from ledger.figures import counters
from ledger.inbox import repeats
from ledger.inbox.standing import Answers, Waiting, noting
from ledger.records import Acceptance, AcceptanceKind, Delivery, Unusable, digest_of

ROUNDS_MAX = 5
TYPE_CHARACTERS_MAX = (
    200  # a stranger chooses it, and the claim's index holds it: an entry ends at about 2,700 bytes
)

METRICS: Mapping[AcceptanceKind, tuple[AcceptanceKind, ...]] = {
    # These three are counted by the statements that store and note them, all that are no new event as duplicates.
    AcceptanceKind.ACCEPTED: (),
    AcceptanceKind.DUPLICATE: (),
    AcceptanceKind.NOT_COMPARED: (),
}  # the counters of a kind that has not just one of its own


def accept(tx: Transaction, items: Sequence[Delivery | Unusable], *, writer: UUID) -> list[Acceptance]:
    """Store every item in this transaction; what became of each, in the order given.

    A constant number of statements (at most five) whatever the size. `writer` is the connection's own id, for the
    counters. Raises Unavailable when rows keep vanishing (a purge races us); every other error is the database's
    own. Either way nothing of the batch is stored once the caller's transaction is rolled back.
    """
    return tx.asked(accepting(items, writer=writer))


def accepting(
    items: Sequence[Delivery | Unusable], *, writer: UUID, nothing_new: bool = False
) -> Asking[list[Acceptance]]:
    """As `accept`, for who runs the statements in another way: all of them in one transaction, READ COMMITTED.

    `nothing_new`: it is likely that nothing here is new. Then that is tried first, and when it is so nothing is inserted in
    vain, which is dear; when it is not, it was one statement more. What becomes of each is the same.
    """
    deliveries = {i: _clean(item) for i, item in enumerate(items) if isinstance(item, Delivery)}
    unusable = {i: item for i, item in enumerate(items) if isinstance(item, Unusable)}
    answers = yield from _accept(deliveries, writer, nothing_new)
    yield from _keep_conflicts(deliveries, answers)
    yield from repeats.quarantine(unusable.values())
    answers |= dict.fromkeys(unusable, Acceptance(AcceptanceKind.QUARANTINED, None))
    in_order = [answers[i] for i in range(len(items))]
    yield from _count(items, in_order, writer)
    return in_order


def lane_key(item: Delivery | Unusable) -> bytes:
    """What a lock that hangs is about: the event's identity, or the quarantined bytes."""
    if isinstance(item, Delivery):
        return digest_of(item.namespace, item.key_digest)
    return digest_of(item.source, item.body, str(item.index))


def _accept(deliveries: Waiting, writer: UUID, nothing_new: bool) -> Asking[Answers]:
    answers: Answers = {}
    if nothing_new and deliveries:
        answers = yield from noting(deliveries, writer, least=len(deliveries))
    for step in (partial(_insert_new, writer=writer), partial(noting, writer=writer)) * ROUNDS_MAX:
        waiting = {i: delivery for i, delivery in deliveries.items() if i not in answers}
        if not waiting:
            break
        answers |= yield from step(waiting)
    if len(answers) < len(deliveries):
        raise Unavailable("An event kept vanishing while it was looked for. Nothing was stored; try again.")
    return answers


# Written in the order of their keys, so that two receivers meet in the same order and never deadlock; numbered before
# that in the order of their arrival, which is the order of a lane. Counted here too: a statement costs more than a row.
INSERT = """
WITH arrived AS MATERIALIZED (
    SELECT nextval('nottwice.events_id_seq') AS id, d.* FROM unnest(
        CAST(:namespaces AS text[]), CAST(:sources AS text[]), CAST(:types AS text[]), CAST(:event_keys AS text[]),
        CAST(:key_digests AS bytea[]), CAST(:occurrence_digests AS bytea[]), CAST(:content_digests AS bytea[]),
        CAST(:delivery_ids AS text[]), CAST(:occurred_ats AS timestamptz[]), CAST(:ignored AS boolean[]),
        CAST(:ordering_digests AS bytea[]), CAST(:key_rules AS smallint[]), CAST(:content_types AS text[]),
        CAST(:bodies AS bytea[])) WITH ORDINALITY
      AS d(namespace, source, type, event_key, key_digest, occurrence_digest, content_digest, delivery_id, occurred_at, ignored,
           ordering_digest, key_rule, content_type, body, place)),
stored AS (
    INSERT INTO nottwice.events (id, namespace, source, type, event_key, key_digest, occurrence_digest, content_digest, delivery_id,
                                 occurred_at, ordering_digest, key_rule, state, ending, due_at, ended_at) OVERRIDING SYSTEM VALUE
    SELECT id, namespace, source, type, event_key, key_digest, occurrence_digest, content_digest, delivery_id, occurred_at,
           ordering_digest, key_rule,
           CASE WHEN ignored THEN 'completed' ELSE 'pending' END, CASE WHEN ignored THEN 'ignored' END,
           CASE WHEN ignored THEN NULL ELSE now() END, CASE WHEN ignored THEN now() END
    FROM arrived ORDER BY namespace, key_digest
    ON CONFLICT DO NOTHING
    RETURNING id),
kept AS (
    INSERT INTO nottwice.event_contents (event_id, content_type, body)
    SELECT s.id, a.content_type, a.body FROM stored s JOIN arrived a USING (id)),
counted AS (
    INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
    SELECT date_trunc('minute', now()), a.namespace, 'accepted', :writer, count(*)
    FROM stored s JOIN arrived a USING (id) GROUP BY a.namespace ORDER BY a.namespace
    ON CONFLICT (minute, namespace, metric, writer) DO UPDATE SET n = nottwice.counters.n + excluded.n)
SELECT a.place, s.id FROM stored s JOIN arrived a USING (id)
"""


def _insert_new(waiting: Waiting, writer: UUID) -> Asking[Answers]:
    """Insert the first delivery of each key; whoever shares a key or an occurrence with it is found afterwards."""
    firsts: dict[tuple[str, bytes], int] = {}
    for i, delivery in waiting.items():
        firsts.setdefault((delivery.namespace, delivery.key_digest), i)
    places = list(firsts.values())
    rows = [waiting[i] for i in places]
    stored = yield statement(
        INSERT,
        writer=writer,
        namespaces=Texts([d.namespace for d in rows]),
        sources=Texts([d.source for d in rows]),
        types=Texts([d.type for d in rows]),
        event_keys=Texts([d.event_key for d in rows]),
        key_digests=Bytes([d.key_digest for d in rows]),
        occurrence_digests=Bytes([d.occurrence_digest for d in rows]),
        content_digests=Bytes([d.content_digest for d in rows]),
        delivery_ids=Texts([d.delivery_id for d in rows]),
        occurred_ats=Moments([d.occurred_at for d in rows]),
        ignored=Flags([d.ignored for d in rows]),
        ordering_digests=Bytes([d.ordering_digest for d in rows]),
        key_rules=SmallNumbers([d.key_rule for d in rows]),
        content_types=Texts([d.content_type for d in rows]),
        bodies=Bytes([d.body for d in rows]),
    )
    return {places[place - 1]: Acceptance(AcceptanceKind.ACCEPTED, id_) for place, id_ in stored}


def _keep_conflicts(deliveries: Waiting, answers: Answers) -> Asking[None]:
    again = [
        (answer.event_id, deliveries[i])
        for i, answer in sorted(answers.items())
        if answer.kind is AcceptanceKind.CONFLICT and answer.event_id is not None
    ]
    yield from repeats.keep_conflicts(again)


def _count(items: Sequence[Delivery | Unusable], answers: Sequence[Acceptance], writer: UUID) -> Asking[None]:
    counts: Counter[tuple[str, str]] = Counter()
    for item, answer in zip(items, answers, strict=True):
        for metric in METRICS.get(answer.kind, (answer.kind,)):
            counts[item.namespace, metric.value] += 1
    if counts:
        yield counters.bumping(writer, counts)


def _clean(delivery: Delivery) -> Delivery:
    """The adapters quarantine what PostgreSQL's text cannot hold; a stray one must not become a 5xx for ever.

    It is made visible; the identity is the key's digest, which is not touched.
    """
    texts = (delivery.type, delivery.event_key, delivery.delivery_id, delivery.content_type)
    if payload.is_storable("".join(texts)) and len(delivery.type) <= TYPE_CHARACTERS_MAX:
        return delivery
    return replace(
        delivery,
        type=payload.storable(delivery.type)[:TYPE_CHARACTERS_MAX],
        event_key=payload.storable(delivery.event_key),
        delivery_id=payload.storable(delivery.delivery_id),
        content_type=payload.storable(delivery.content_type),
    )
