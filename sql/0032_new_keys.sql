-- The idempotency key, as ledger/actions/proposals.py provider_key() derives it; a test compares the two.
CREATE FUNCTION nottwice.provider_key(namespace text, account text, key_digest bytea, generation integer) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT rtrim(translate(encode(sha256(
               nottwice.part(uuid_send(i.id)) || nottwice.part(convert_to(namespace, 'UTF8')) || nottwice.part(convert_to(account, 'UTF8'))
               || nottwice.part(key_digest) || nottwice.part(convert_to(generation::text, 'UTF8'))), 'base64'), '+/', '-_'), '=')
    FROM nottwice.installation i
$$;

-- The next generation of a send, with all that belongs to its key and its content: for the account of now, to go out at
-- `due` and no later than the old one might have. Whether two people agreed is the trigger's of 0028 to ask.
CREATE FUNCTION nottwice.copied_generation(old_id bigint, due timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    made bigint;
BEGIN
    INSERT INTO nottwice.actions AS new (namespace, action_key, key_digest, generation, kind, about, event_id, provider, account, place, provider_key,
            reference, policy, cost, cost_reason, content_digest, key_window_s, key_margin_s, evidence_s, retry_until, send_before,
            state, due_at, decided_send, tells)
    SELECT o.namespace, o.action_key, o.key_digest, o.generation + 1, o.kind, o.about, o.event_id, o.provider, n.account,
           coalesce(nullif(nottwice.place_of(o.provider), ''), o.place),
           CASE WHEN n.window_s IS NOT NULL THEN k.key END,
           'nt-' || left(encode(sha256(nottwice.part('reference') || nottwice.part(convert_to(k.key, 'UTF8'))), 'hex'), 16),
           o.policy, o.cost, o.cost_reason,
           CASE WHEN n.account = o.account THEN o.content_digest
                ELSE (SELECT nottwice.request_digest(o.provider, n.account, c.recipients, c.content)
                      FROM nottwice.action_contents c WHERE c.action_id = o.id) END,
           n.window_s, n.margin_s, o.evidence_s,
           due + greatest(o.retry_until - o.created_at, interval '1 hour'), o.send_before, 'approved', due, true, o.tells
    FROM nottwice.actions o LEFT JOIN nottwice.providers p ON p.name = o.provider AND nottwice.has_moved(o.provider, o.account, o.place),
         LATERAL (SELECT coalesce(p.account, o.account) AS account,
                         CASE WHEN p.name IS NULL THEN o.key_window_s ELSE p.key_window_s END AS window_s,
                         coalesce(p.key_margin_s, o.key_margin_s) AS margin_s) n,
         LATERAL (SELECT nottwice.provider_key(o.namespace, n.account, o.key_digest, o.generation + 1) AS key) k
    WHERE o.id = old_id
    RETURNING new.id INTO made;
    INSERT INTO nottwice.action_contents (action_id, content, recipients, subject)
    SELECT made, c.content, c.recipients, c.subject FROM nottwice.action_contents c WHERE c.action_id = old_id;
    RETURN made;
END
$$;
REVOKE EXECUTE ON FUNCTION nottwice.copied_generation FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.copied_generation TO nottwice_worker;
