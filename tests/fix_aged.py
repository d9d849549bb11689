"""Rows of every state, long past; and many that ended long ago."""

from __future__ import annotations

EVENTS = """
INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, delivery_id, accepted_at, state, ending,
                             due_at, ended_at, claim_token, claimed_by, claimed_at, lease_until, attempts)
SELECT :namespace, 'shop', 't', s.state || n, sha256(CAST(s.state || n AS bytea)), sha256(''), 'd' || n, at.long_ago, s.state,
       CASE WHEN s.state = 'completed' THEN (ARRAY['done', 'ignored', 'unhandled'])[1 + n % 3] END,
       CASE WHEN s.state = 'pending' THEN now() + interval '1 day' END,
       CASE WHEN s.state IN ('completed', 'failed') THEN at.long_ago END,
       p.id, p.id, CASE WHEN p.id IS NOT NULL THEN now() END, CASE WHEN p.id IS NOT NULL THEN now() + interval '1 day' END,
       CASE WHEN s.state = 'pending' THEN 0 ELSE 1 END
FROM (SELECT now() - make_interval(days => :days) AS long_ago) AS at, unnest(CAST(:states AS text[])) AS s(state),
     generate_series(1, CAST(:n AS integer)) AS n,
     LATERAL (SELECT CASE WHEN s.state = 'processing' THEN gen_random_uuid() END AS id) AS p
"""
BODIES = """
INSERT INTO nottwice.event_contents (event_id, body)
SELECT id, decode(repeat('ab', 300), 'hex') FROM nottwice.events e
WHERE NOT EXISTS (SELECT FROM nottwice.event_contents c WHERE c.event_id = e.id)
"""
# Each is of an event of its own, behind the first :n completed ones.
ACTIONS = """
INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, event_id, provider, account, provider_key, reference, policy, cost,
                              content_digest, key_window_s, key_margin_s, evidence_s, retry_until, state, due_at, claim_token, claimed_by,
                              claimed_at, lease_until, review_since, created_at, settled_at)
SELECT 'acme', 'k' || k.name, sha256(CAST('k' || k.name AS bytea)), 'receipt',
       (SELECT id FROM nottwice.events WHERE namespace = 'acme' AND event_key = 'completed' || s.place * :n + i),
       'post', 'post', 'p' || k.name, 'nt-' || k.name, 'review', 'high', sha256(''), 86400, 900, 0, at.long_ago, s.state,
       CASE WHEN s.state = 'approved' THEN now() + interval '1 day' END,
       p.id, p.id, CASE WHEN p.id IS NOT NULL THEN now() END, CASE WHEN p.id IS NOT NULL THEN now() + interval '1 day' END,
       CASE WHEN s.state = 'needs_review' THEN at.long_ago END, at.long_ago,
       CASE WHEN s.state IN ('sent', 'refused', 'failed', 'declined', 'closed') THEN at.long_ago END
FROM (SELECT now() - make_interval(days => :days) AS long_ago) AS at,
     unnest(CAST(:states AS text[])) WITH ORDINALITY AS s(state, place), generate_series(1, CAST(:n AS integer)) AS i,
     LATERAL (SELECT s.state || i AS name) AS k, LATERAL (SELECT CASE WHEN s.state = 'sending' THEN gen_random_uuid() END AS id) AS p
"""
TEXTS = """
INSERT INTO nottwice.action_contents (action_id, content, recipients)
SELECT id, 'x', '{a@example.com}' FROM nottwice.actions a WHERE NOT EXISTS (SELECT FROM nottwice.action_contents c WHERE c.action_id = a.id)
"""
# How many there are of each state, and how many of those still have everything, or anything.
EVENTS_LEFT = """
SELECT e.namespace, e.state, count(*) AS n, count(e.key_digest) AS keys, count(c.event_id) AS bodies
FROM nottwice.events e LEFT JOIN nottwice.event_contents c ON c.event_id = e.id
WHERE e.accepted_at < now() - interval '1 day' GROUP BY e.namespace, e.state
"""
ACTIONS_LEFT = """
SELECT a.namespace, a.state, count(*) AS n, count(a.key_digest) AS keys, count(a.provider_key) AS provider_keys,
       count(c.action_id) AS contents
FROM nottwice.actions a LEFT JOIN nottwice.action_contents c ON c.action_id = a.id GROUP BY a.namespace, a.state
"""
