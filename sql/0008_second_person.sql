-- What a second person's agreement does: the next generation of an action, with the same content and a key of its own.
-- People have no INSERT on actions; this function is their only way, and it asks for the agreement first.

-- The idempotency key, as ledger/proposals.py provider_key() derives it; a test compares the two.
CREATE FUNCTION nottwice.provider_key(namespace text, account text, key_digest bytea, generation integer) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT rtrim(translate(encode(sha256(
               nottwice.part(uuid_send(i.id)) || nottwice.part(convert_to(namespace, 'UTF8')) || nottwice.part(convert_to(account, 'UTF8'))
               || nottwice.part(key_digest) || nottwice.part(convert_to(generation::text, 'UTF8'))), 'base64'), '+/', '-_'), '=')
    FROM nottwice.installation i
$$;

CREATE FUNCTION nottwice.next_generation(old_id bigint, wait_s double precision)
RETURNS TABLE (id bigint, due_at timestamptz, now timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    made bigint;
    due  timestamptz := transaction_timestamp() + make_interval(secs => wait_s);
BEGIN
    IF NOT EXISTS (SELECT FROM nottwice.requests r JOIN nottwice.actions a ON a.id = r.action_id
                   WHERE r.action_id = old_id AND r.decision = 'agreed' AND r.decided_at = transaction_timestamp()
                     AND r.decided_by <> r.requested_by AND a.state = 'closed') THEN
        RAISE EXCEPTION 'a new key takes the agreement of a second person' USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO nottwice.actions AS new (namespace, action_key, key_digest, generation, kind, about, event_id, provider, account, provider_key,
            reference, policy, cost, cost_reason, content_digest, key_window_s, key_margin_s, evidence_s, retry_until, state, due_at, decided_send)
    SELECT o.namespace, o.action_key, o.key_digest, o.generation + 1, o.kind, o.about, o.event_id, o.provider, o.account,
           CASE WHEN o.key_window_s IS NOT NULL THEN k.key END,
           'nt-' || left(encode(sha256(nottwice.part('reference') || nottwice.part(convert_to(k.key, 'UTF8'))), 'hex'), 16),
           o.policy, o.cost, o.cost_reason, o.content_digest, o.key_window_s, o.key_margin_s, o.evidence_s,
           due + greatest(o.retry_until - o.created_at, interval '1 hour'), 'approved', due, true
    FROM nottwice.actions o,
         LATERAL (SELECT nottwice.provider_key(o.namespace, o.account, o.key_digest, o.generation + 1) AS key) k
    WHERE o.id = old_id
    RETURNING new.id INTO made;
    INSERT INTO nottwice.action_contents (action_id, content, recipients, subject)
    SELECT made, c.content, c.recipients, c.subject FROM nottwice.action_contents c WHERE c.action_id = old_id;
    RETURN QUERY SELECT made, due, transaction_timestamp();
END
$$;
REVOKE EXECUTE ON FUNCTION nottwice.next_generation FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.next_generation TO nottwice_support, nottwice_admin;
