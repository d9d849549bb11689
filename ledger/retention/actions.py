"""The rules for what goes out: contents and keys of actions, and whom notices about them name."""

from __future__ import annotations

from ledger.retention.rules import Rule

CONTENTS = Rule(
    what="action contents",
    period="action_contents_days",
    table="nottwice.actions",
    has="r.settled_at IS NOT NULL AND NOT r.content_gone",
    since="r.settled_at",
    needed="CAST(NULL AS timestamptz)",
    waits="SELECT FROM judged WHERE false",
    goes="""gone AS (DELETE FROM nottwice.action_contents c USING over WHERE c.action_id = over.id
                     RETURNING c.action_id AS id, octet_length(c.content) AS n),
stripped AS (UPDATE nottwice.actions a SET content_gone = true, version = a.version + 1 FROM over WHERE a.id = over.id)""",
    counted="""gone AS (SELECT c.action_id AS id, octet_length(c.content) AS n
                        FROM nottwice.action_contents c JOIN over ON c.action_id = over.id)""",
    size="coalesce((SELECT octet_length(x.content) FROM nottwice.action_contents x WHERE x.action_id = c.id), 0)",
)

# The last generation first: while one has the key, no new first one may be made. What is configured as once ever when
# its time comes is marked, and never looked at again. A key may name somebody, so it goes too.
KEYS = Rule(
    what="action keys",
    period="action_keys_days",
    table="nottwice.actions",
    has="r.settled_at IS NOT NULL AND r.key_digest IS NOT NULL",
    since="greatest(r.settled_at, r.key_needed_at)",
    needed="""CASE WHEN h.kind = ANY(CAST(:once_ever AS text[])) THEN CAST('9999-12-31 UTC' AS timestamptz)
                    ELSE (SELECT nottwice.not_yet(:kept_s) FROM nottwice.actions n
                          WHERE n.namespace = h.namespace AND n.key_digest = h.key_digest AND n.generation > h.generation LIMIT 1) END""",
    waits="UPDATE nottwice.actions a SET key_needed_at = j.needed_at FROM judged j WHERE a.id = j.id AND j.needed_at IS NOT NULL",
    goes="""gone AS (UPDATE nottwice.actions a SET key_digest = NULL, provider_key = NULL, key_window_s = NULL, action_key = '',
                            about = '', reference = '', message_id = NULL, version = a.version + 1
                     FROM over WHERE a.id = over.id RETURNING a.id, 0 AS n),
tries AS (UPDATE nottwice.action_attempts t SET reason = '', code = '', message_id = CASE WHEN t.message_id IS NOT NULL THEN '' END
          FROM over WHERE t.action_id = over.id),
evidence AS (UPDATE nottwice.evidence v SET found = '', message_id = NULL FROM over WHERE v.action_id = over.id),
looks AS (DELETE FROM nottwice.lookups l USING over WHERE l.action_id = over.id),
told AS (DELETE FROM nottwice.notices n USING nottwice.messages m, over
         WHERE m.action_id = over.id AND n.account = m.account AND n.message_id = m.message_id),
met AS (DELETE FROM nottwice.messages m USING over WHERE m.action_id = over.id)""",
    lock="UPDATE",
)

# Whom a notice names is known as long as the text of the mail it is about.
NOTICES = Rule(
    what="notices' recipients",
    period="action_contents_days",
    table="nottwice.notices",
    has="NOT r.names_gone",
    since="greatest(r.noted_at, r.needed_at)",
    needed="""(SELECT CASE WHEN a.settled_at IS NULL THEN nottwice.not_yet(:kept_s)
                            WHEN a.settled_at >= now() - make_interval(secs => :kept_s) THEN a.settled_at END
                FROM nottwice.messages m JOIN nottwice.actions a ON a.id = m.action_id
                WHERE m.account = h.account AND m.message_id = h.message_id)""",
    waits="UPDATE nottwice.notices n SET needed_at = j.needed_at FROM judged j WHERE n.id = j.id AND j.needed_at IS NOT NULL",
    goes="""told AS (SELECT h.id, octet_length(h.recipient) + octet_length(h.detail) AS n FROM held h),
stripped AS (UPDATE nottwice.notices n SET recipient = '', detail = '', names_gone = true FROM over WHERE n.id = over.id RETURNING n.id),
gone AS (SELECT told.id, told.n FROM told JOIN stripped USING (id))""",
    counted="""gone AS (SELECT h.id, octet_length(h.recipient) + octet_length(h.detail) AS n FROM held h JOIN over USING (id))""",
)

# What was said about mail that nobody here knows, and the messages themselves: they belong to no namespace of ours.
STRANGERS = """
WITH over AS MATERIALIZED (
    SELECT m.account, m.message_id FROM nottwice.messages m
    WHERE m.action_id IS NULL AND m.seen_at < now() - make_interval(secs => :kept_s)
    ORDER BY m.seen_at, m.account, m.message_id LIMIT :rows_max FOR UPDATE SKIP LOCKED),
told AS (DELETE FROM nottwice.notices n USING over WHERE n.account = over.account AND n.message_id = over.message_id)
DELETE FROM nottwice.messages m USING over WHERE m.account = over.account AND m.message_id = over.message_id
"""
STRANGERS_COUNTED = """
SELECT count(*) AS n FROM nottwice.messages m WHERE m.action_id IS NULL AND m.seen_at < now() - make_interval(secs => :kept_s)
"""
