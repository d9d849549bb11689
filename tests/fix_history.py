"""A ledger with a long past and a busy present, made fast: for what a screen costs, at any scale.

Of `history` finished events, spread over a month, every fifth led to a send, every ninth came twice; people made a
decision for every five hundred. Then what lives: work that waits, is in hand, set aside and handled by nobody; sends that
wait for people. Rows are written without triggers and (for large scales) without indexes, which are built again at the
end: they are right by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

CHUNK = 500_000
FILLED = ("events", "event_contents", "duplicates", "conflicts", "quarantine", "actions", "action_contents", "action_attempts",
          "messages", "audit", "audit_seals")  # fmt: skip
KINDS = "(ARRAY['invoice.paid', 'invoice.voided', 'refund', 'dispute', 'payout'])[1 + n % 5]"
AT = "now() - ({history} - n) * (interval '31 days' / {history}) - interval '1 h'"
EVENTS = f"""
WITH made AS (
    INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, delivery_id, state, ending, due_at,
                                 attempts, accepted_at, ended_at, version)
    SELECT 'acme', 'shop', k.type, k.type || ' evt_' || md5(CAST(n AS text)), sha256(CAST('past ' || n AS bytea)),
           sha256(CAST('x' AS bytea)), 'd' || n, 'completed', 'done', NULL, 1, {AT}, {AT} + interval '1 s', 3
    FROM generate_series({{first}}, {{last}}) AS n, LATERAL (SELECT {KINDS} AS type) AS k
    RETURNING id, accepted_at),
bodies AS (INSERT INTO nottwice.event_contents (event_id, content_type, body)
           SELECT id, 'application/json', '{{{{"id": 1}}}}' FROM made),
again AS (INSERT INTO nottwice.duplicates (event_id, delivery_id, deliveries) SELECT id, 'again', 1 FROM made WHERE id % 9 = 0),
sends AS (
    INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, about, event_id, provider, account, reference, policy, cost,
                                  content_digest, key_margin_s, evidence_s, retry_until, state, verdict, settled_at, message_id,
                                  attempts, created_at, first_started_at, version)
    SELECT 'acme', 'past:' || id, sha256(CAST('past ' || id AS bytea)), 'receipt', 'INV-' || id, id, 'inboxili', 'inboxili', 'nt' || id,
           'review', 'high', sha256(CAST('x' AS bytea)), 900, 300, accepted_at, 'sent', 'was_sent', accepted_at + interval '2 s',
           'm' || id, 1, accepted_at, accepted_at, 4
    FROM made WHERE id % 5 = 0 RETURNING id, account, message_id, settled_at),
texts AS (INSERT INTO nottwice.action_contents (action_id, content, recipients, subject)
          SELECT id, '{{{{}}}}', ARRAY['somebody' || id % 1000 || '@example.com'], 'Receipt' FROM sends),
told AS (INSERT INTO nottwice.messages (account, message_id, action_id, seen_at, standing)
         SELECT account, message_id, id, settled_at, CASE WHEN id % 200 = 0 THEN 'bounced' ELSE 'delivered' END FROM sends)
INSERT INTO nottwice.action_attempts (action_id, number, token, worker, account, started_at, answered_at, outcome, message_id)
SELECT id, 1, gen_random_uuid(), gen_random_uuid(), account, settled_at, settled_at, 'accepted', message_id FROM sends
"""
RECORD = """
WITH who AS (INSERT INTO nottwice.people (issuer, subject, name, email) VALUES ('local', 'past@acme.example', 'Past Person', '')
             RETURNING id),
done AS (
    INSERT INTO nottwice.audit (at, person_id, role, act, entity, entity_id, entity_version, outcome, why, looked_at,
                                state_before, state_after)
    SELECT now() - n * interval '100 s' - interval '1 day', who.id, 'support', 'closed as sent', 'action', n, 1, 'done',
           'The log shows it.', '{{Our own records}}', 'needs_review', 'closed'
    FROM who, generate_series(greatest({history} / 500, 20000), 1, -1) AS n RETURNING id)
INSERT INTO nottwice.audit_seals (sequence, audit_id, previous_hash, hash)
SELECT row_number() OVER (ORDER BY id), id, sha256(CAST('x' AS bytea)), sha256(CAST('x' || id AS bytea)) FROM done
"""
REST = (
    """INSERT INTO nottwice.conflicts (event_id, content_digest, body, acknowledged_at)
       SELECT n * 50, sha256(CAST('c' || n AS bytea)), 'x', now() FROM generate_series(1, {history} / 500) AS n""",
    """INSERT INTO nottwice.quarantine (namespace, source, body_digest, element, reason, body, settled_at)
       SELECT 'acme', 'shop', sha256(CAST('q' || n AS bytea)), 0, 'no key', 'x', now() FROM generate_series(1, {history} / 500) AS n""",
    """INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
       SELECT date_trunc('minute', now()) - m * interval '1 min', 'acme', metric, gen_random_uuid(), 60
       FROM generate_series(0, 1439) AS m, unnest(ARRAY['accepted', 'duplicate', 'completed', 'sent']) AS metric,
            generate_series(1, 3)""",
    """INSERT INTO nottwice.counters_hourly (hour, namespace, metric, n)
       SELECT date_trunc('hour', now()) - h * interval '1 h', 'acme', metric, 3600
       FROM generate_series(24, 1000) AS h, unnest(ARRAY['accepted', 'duplicate', 'completed', 'sent', 'unknown']) AS metric""",
    """INSERT INTO nottwice.samples (hour, events_bytes, event_contents_bytes, sends_bytes, record_bytes, others_bytes,
                                     oldest_transaction_s)
       SELECT date_trunc('hour', now()) - h * interval '1 h', 1e9 - h * 1e6, 2e9 - h * 2e6, 1e8, 1e7, 1e7, 3
       FROM generate_series(1, 719) AS h""",
    # Alive for as long as anybody looks.
    """INSERT INTO nottwice.workers (id, name, kind, host, handles, seen_at)
       SELECT gen_random_uuid(), k.kind || '-' || n, k.kind, 'here',
              CASE k.kind WHEN 'worker' THEN ARRAY['shop invoice.paid', 'shop refund', 'shop payout', 'shop dispute'] ELSE '{{}}' END,
              now() + interval '12 h'
       FROM generate_series(1, 4) AS n, (VALUES ('worker'), ('receiver')) AS k(kind)""",
)
# Of a hundred that live: 93 wait, 2 are of a kind that nobody handles, 4 are set aside, one is in hand.
LIVE = f"""
INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, state, due_at, attempts, accepted_at, ended_at,
                             last_error, claim_token, claimed_by, claimed_at, lease_until)
SELECT 'acme', 'shop', CASE WHEN s.state = 'pending' AND n % 100 > 94 THEN 'unheard.of' ELSE {KINDS} END, 'live_' || n,
       sha256(CAST('live ' || n AS bytea)), sha256(CAST('x' AS bytea)), s.state,
       CASE s.state WHEN 'pending' THEN now() - n * interval '1 ms' END, CASE s.state WHEN 'pending' THEN 0 ELSE 5 END,
       now() - n * interval '1 ms', CASE s.state WHEN 'failed' THEN now() END,
       CASE s.state WHEN 'failed' THEN 'ValueError: the message cannot be read' END,
       CASE s.state WHEN 'processing' THEN gen_random_uuid() END,
       CASE s.state WHEN 'processing' THEN (SELECT id FROM nottwice.workers WHERE name = 'worker-' || 1 + n % 4) END,
       CASE s.state WHEN 'processing' THEN now() END, CASE s.state WHEN 'processing' THEN now() + n % 60 * interval '1 s' END
FROM generate_series(1, {{live}}) AS n,
     LATERAL (SELECT CASE WHEN n % 100 = 0 THEN 'processing' WHEN n % 100 < 5 THEN 'failed' ELSE 'pending' END AS state) AS s
"""
# Three of four uncertain ones go by a provider without keys; every 40th key ends within the hour.
DESK = """
WITH asked AS (
    INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, about, provider, account, provider_key, reference, policy, cost,
                                  cost_reason, content_digest, key_window_s, key_margin_s, evidence_s, retry_until, state, verdict,
                                  review_since, due_at, evidence_until, attempts, created_at, first_started_at, version)
    SELECT 'acme', 'desk:' || n, sha256(CAST('desk ' || n AS bytea)), CASE WHEN n % 3 = 0 THEN 'refund_notice' ELSE 'receipt' END,
           'INV-' || n, p.provider, p.provider, CASE WHEN p.keyed THEN 'key-' || n END, 'desk' || n, 'review',
           (ARRAY['high', 'medium', 'low'])[1 + n % 3], 'A second one can be booked twice', c.digest,
           CASE WHEN p.keyed THEN 86400 END, 900, 300, now(), s.state,
           CASE WHEN s.state = 'needs_review' THEN CASE WHEN p.keyed THEN 'safe_to_try_again' ELSE 'nobody_knows' END END,
           CASE WHEN s.state = 'needs_review' THEN t.at END, CASE WHEN s.state = 'approved' THEN now() END,
           CASE WHEN s.state = 'needs_review' THEN t.at END, CASE WHEN s.state = 'needs_review' THEN 1 ELSE 0 END, t.at,
           CASE WHEN s.state = 'needs_review' THEN CASE WHEN n % 40 = 0 THEN now() - interval '23 h 10 min' ELSE t.at END END, 2
    FROM generate_series(1, {desk} + {desk} / 20 + {desk} / 50) AS n,
         LATERAL (SELECT n % 4 = 0 AS keyed, CASE WHEN n % 4 = 0 THEN 'agentmail' ELSE 'inboxili' END AS provider) AS p,
         LATERAL (SELECT CASE WHEN n <= {desk} THEN 'needs_review' WHEN n <= {desk} + {desk} / 20 THEN 'proposed'
                              ELSE 'approved' END AS state) AS s,
         LATERAL (SELECT now() - n * interval '4 s' - interval '10 min' AS at) AS t,
         LATERAL (SELECT sha256(CAST('desk' AS bytea)) AS digest) AS c
    RETURNING id, account, state, created_at),
texts AS (INSERT INTO nottwice.action_contents (action_id, content, recipients, subject)
          SELECT id, convert_to('{{"text": "Thank you.", "to": ["a@example.com"]}}', 'UTF8'),
                 ARRAY['person' || id || '@example.com'], 'Your receipt' FROM asked)
INSERT INTO nottwice.action_attempts (action_id, number, token, worker, account, started_at, answered_at, outcome, reason)
SELECT id, 1, gen_random_uuid(), gen_random_uuid(), account, created_at, created_at + interval '5 s', 'unknown', 'no answer within 5 s'
FROM asked WHERE state = 'needs_review'
"""
# The primary keys stay: numbers that rise are cheap to add.
INDEXES = """
SELECT CASE WHEN con.oid IS NULL THEN format('DROP INDEX %s', i.indexrelid::regclass)
            ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', i.indrelid::regclass, con.conname) END,
       CASE WHEN con.oid IS NULL THEN pg_get_indexdef(i.indexrelid)
            ELSE format('ALTER TABLE %s ADD CONSTRAINT %I %s', i.indrelid::regclass, con.conname, pg_get_constraintdef(con.oid)) END
FROM pg_index i LEFT JOIN pg_constraint con ON con.conindid = i.indexrelid AND con.conrelid = i.indrelid
WHERE i.indrelid = ANY (ARRAY(SELECT CAST('nottwice.' || t AS regclass) FROM unnest(CAST('{tables}' AS text[])) AS t))
  AND NOT i.indisprimary ORDER BY i.indexrelid
"""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Scale:
    """How many finished events, live ones, and uncertain sends."""

    history: int
    live: int
    desk: int


def fill(connection: psycopg.Connection[Any], scale: Scale, say: Say = print, *, chunk: int = CHUNK) -> None:
    """`connection` is the owner's, in autocommit. Ends with fresh statistics and all pages visible."""
    given = {"history": scale.history, "live": scale.live, "desk": scale.desk}
    with _in_haste(connection, say, rebuild=scale.history > chunk):
        for first in range(1, scale.history + 1, chunk):
            last = min(first + chunk - 1, scale.history)
            connection.execute(EVENTS.format(first=first, last=last, **given).encode())
            say(f"{last:,} of {scale.history:,} finished events")
        for sql in (RECORD, *REST, LIVE, DESK):
            connection.execute(sql.format(**given).encode())
    connection.execute(b"VACUUM (ANALYZE)")
    connection.execute(b"CHECKPOINT")


def _indexes(connection: psycopg.Connection[Any]) -> list[tuple[str, str]]:
    """How to drop each, and how to make it again."""
    tables = f"{{{','.join(FILLED)}}}"
    return connection.execute(INDEXES.replace("{tables}", tables).encode()).fetchall()


@contextmanager
def _in_haste(connection: psycopg.Connection[Any], say: Say, *, rebuild: bool) -> Iterator[None]:
    """Without triggers, without waiting for the disk, and without indexes where building them later is quicker."""
    found = _indexes(connection) if rebuild else []
    for setting in (
        "session_replication_role = replica",
        "synchronous_commit = off",
        "maintenance_work_mem = '512MB'",
    ):
        connection.execute(f"SET {setting}".encode())
    for drop, _ in found:
        connection.execute(drop.encode())
    yield
    for _, make in found:
        say(make[:90])
        connection.execute(make.encode())
    for setting in ("session_replication_role", "synchronous_commit", "maintenance_work_mem"):
        connection.execute(f"RESET {setting}".encode())
