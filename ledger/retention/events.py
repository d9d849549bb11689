"""The rules for what comes in: contents and keys of events, and what lies in quarantine."""

from __future__ import annotations

from ledger.retention.rules import Rule

# An event is over when its sends are: from the last one's settling its period counts anew. Other content under the same
# key, which nobody has looked at, holds both; but not longer than the key.
BODIES = Rule(
    what="event bodies",
    period="event_bodies_days",
    table="nottwice.events",
    has="r.state = 'completed' AND r.content_digest IS NOT NULL",
    since="greatest(r.ended_at, r.content_needed_at)",
    needed="""greatest(
        (SELECT CASE WHEN bool_or(a.settled_at IS NULL) THEN nottwice.not_yet(:kept_s)
                     WHEN max(a.settled_at) >= now() - make_interval(secs => :kept_s) THEN max(a.settled_at) END
         FROM nottwice.actions a WHERE a.event_id = h.id),
        (SELECT nottwice.not_yet(:kept_s) FROM nottwice.conflicts c
         WHERE c.event_id = h.id AND c.acknowledged_at IS NULL
           AND c.last_seen_at > now() - make_interval(secs => :keys_s) LIMIT 1))""",
    waits="UPDATE nottwice.events e SET content_needed_at = j.needed_at FROM judged j WHERE e.id = j.id AND j.needed_at IS NOT NULL",
    # Without its digest: what cannot be compared any more is a duplicate, never a conflict.
    goes="""gone AS (DELETE FROM nottwice.event_contents c USING over WHERE c.event_id = over.id
                     RETURNING c.event_id AS id, octet_length(c.body) AS n),
conflicts AS (UPDATE nottwice.conflicts c SET body = NULL FROM over WHERE c.event_id = over.id AND c.body IS NOT NULL),
stripped AS (UPDATE nottwice.events e SET content_digest = NULL, version = e.version + 1 FROM over WHERE e.id = over.id)""",
    counted="""gone AS (SELECT c.event_id AS id, octet_length(c.body) AS n
                        FROM nottwice.event_contents c JOIN over ON c.event_id = over.id)""",
    size="coalesce((SELECT octet_length(x.body) FROM nottwice.event_contents x WHERE x.event_id = c.id), 0)",
)

# The row keeps the readable key, for whoever looks for its story. Rows of duplicates refer to the event, and whoever is
# writing one holds its key: such an event is skipped, and such a row of an event, so that nobody waits for us while we
# wait for them.
KEYS = Rule(
    what="event keys",
    period="event_keys_days",
    table="nottwice.events",
    has="r.state = 'completed' AND r.key_digest IS NOT NULL",
    since="greatest(r.accepted_at, r.key_needed_at)",
    needed="(SELECT nottwice.not_yet(:kept_s) FROM nottwice.actions a WHERE a.event_id = h.id AND a.settled_at IS NULL LIMIT 1)",
    waits="UPDATE nottwice.events e SET key_needed_at = j.needed_at FROM judged j WHERE e.id = j.id AND j.needed_at IS NOT NULL",
    goes="""gone AS (UPDATE nottwice.events e SET key_digest = NULL, occurrence_digest = NULL, delivery_id = '', version = e.version + 1
                     FROM over WHERE e.id = over.id RETURNING e.id, 0 AS n),
conflicts AS (UPDATE nottwice.conflicts c SET body = NULL FROM over WHERE c.event_id = over.id AND c.body IS NOT NULL),
words AS (UPDATE nottwice.event_attempts t SET error = NULL FROM over WHERE t.event_id = over.id AND t.error IS NOT NULL),
results AS (UPDATE nottwice.reprocess_rows w SET reason = 'The words are no longer kept.'
            FROM over WHERE w.event_id = over.id AND w.state = 'failed'),
free AS MATERIALIZED (SELECT x.event_id, x.delivery_id FROM nottwice.duplicates x JOIN over ON over.id = x.event_id
                     WHERE x.delivery_id <> '' FOR UPDATE OF x SKIP LOCKED),
told AS (DELETE FROM nottwice.duplicates d USING free WHERE d.event_id = free.event_id AND d.delivery_id = free.delivery_id
         RETURNING d.event_id, d.deliveries, d.not_compared, d.first_seen_at, d.last_seen_at),
counted AS (
    INSERT INTO nottwice.duplicates AS all_of_them (event_id, delivery_id, deliveries, not_compared, first_seen_at, last_seen_at)
    SELECT event_id, '', sum(deliveries), sum(not_compared), min(first_seen_at), max(last_seen_at) FROM told GROUP BY event_id
    ON CONFLICT (event_id, delivery_id) DO UPDATE SET
        deliveries = all_of_them.deliveries + excluded.deliveries, not_compared = all_of_them.not_compared + excluded.not_compared,
        first_seen_at = least(all_of_them.first_seen_at, excluded.first_seen_at),
        last_seen_at = greatest(all_of_them.last_seen_at, excluded.last_seen_at))""",
    lock="UPDATE",
)

# Without its digest, too: the same bytes that come again are kept again. What has no content any more cannot be
# examined, so nobody is asked to.
QUARANTINE = Rule(
    what="contents in quarantine",
    period="quarantined_days",
    table="nottwice.quarantine",
    has="r.body_digest IS NOT NULL",
    since="r.last_seen_at",
    needed="CAST(NULL AS timestamptz)",
    waits="SELECT FROM judged WHERE false",
    goes="""told AS (SELECT h.id, octet_length(h.body) AS n FROM held h),
stripped AS (UPDATE nottwice.quarantine q SET body = NULL, body_digest = NULL, settled_at = coalesce(q.settled_at, now()),
                    version = q.version + 1
             FROM over WHERE q.id = over.id RETURNING q.id),
gone AS (SELECT told.id, told.n FROM told JOIN stripped USING (id))""",
    counted="gone AS (SELECT h.id, octet_length(h.body) AS n FROM held h)",
    size="(SELECT octet_length(x.body) FROM nottwice.quarantine x WHERE x.id = c.id)",
    lock="UPDATE",
)

# What a handler proposed when its event was worked again is as personal as the event, and useful no longer.
FINDINGS = Rule(
    what="findings of reprocessing",
    period="event_bodies_days",
    table="nottwice.reprocess_findings",
    has="NOT r.content_gone",
    since="r.found_at",
    needed="CAST(NULL AS timestamptz)",
    waits="SELECT FROM judged WHERE false",
    goes="""told AS (SELECT h.id, octet_length(h.content) AS n FROM held h),
stripped AS (UPDATE nottwice.reprocess_findings f SET content = NULL, recipients = '{}', subject = '', about = '', action_key = ''
             FROM over WHERE f.id = over.id RETURNING f.id),
gone AS (SELECT told.id, told.n FROM told JOIN stripped USING (id))""",
    counted="gone AS (SELECT h.id, octet_length(h.content) AS n FROM held h)",
    size="(SELECT octet_length(x.content) FROM nottwice.reprocess_findings x WHERE x.id = c.id)",
)
