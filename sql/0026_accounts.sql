-- Accounts at providers: what holds them, which account a provider's name stands for, and whether this ledger still
-- stands where it stood when it sent last.

-- `by_settings`: a key, a right or an address of ours is to blame, so settings that are read anew are tried at once.
-- `told`: one process has said so, for all. `probes`: sends that tried the account since.
ALTER TABLE nottwice.provider_pauses
    ADD COLUMN by_settings boolean NOT NULL DEFAULT false,
    ADD COLUMN told boolean NOT NULL DEFAULT false,
    ADD COLUMN probes integer NOT NULL DEFAULT 0;

-- What a provider's name stands for now, as the last worker that read its configuration wrote it down. An action
-- keeps the account it was written for; where the name stands for another one since, nothing goes out by itself.
CREATE TABLE nottwice.providers (
    name           text PRIMARY KEY,
    kind           text NOT NULL,
    account        text NOT NULL,
    place          text NOT NULL DEFAULT '',  -- its kind, and the address in one spelling; '': not told
    key_window_s   double precision,  -- NULL: no keys
    key_margin_s   double precision NOT NULL,
    read_at        timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE ON nottwice.providers TO nottwice_worker;
GRANT SELECT ON nottwice.providers TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- Where the provider was when an action was written, and where each try went: a key protects at one place alone.
ALTER TABLE nottwice.actions ADD COLUMN place text NOT NULL DEFAULT '';
ALTER TABLE nottwice.action_attempts ADD COLUMN place text NOT NULL DEFAULT '';
GRANT INSERT (place) ON nottwice.actions TO nottwice_application;
GRANT SELECT (place) ON nottwice.actions, nottwice.action_attempts
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- Another account, or one of another kind: what was written for it is not for the one of now. Another address of the
-- same kind concerns those sends alone that may have gone out at the old one: their tries say so.
CREATE FUNCTION nottwice.has_moved(provider text, account text, place text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM nottwice.providers p WHERE p.name = provider
                   AND (p.account <> has_moved.account
                        OR has_moved.place <> '' AND p.kind <> split_part(has_moved.place, ' ', 1)))
$$;

CREATE FUNCTION nottwice.place_of(provider text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT p.place FROM nottwice.providers p WHERE p.name = provider), '')
$$;

-- The accounts of sends that wait, found by hopping through their index: its cost grows with the number of accounts.
CREATE FUNCTION nottwice.accounts_that_wait() RETURNS SETOF text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE hop AS (
        (SELECT account FROM nottwice.actions WHERE state = 'approved' ORDER BY account LIMIT 1)
        UNION ALL
        SELECT (SELECT a.account FROM nottwice.actions a
                WHERE a.state = 'approved' AND a.account > hop.account ORDER BY a.account LIMIT 1)
        FROM hop WHERE hop.account IS NOT NULL)
    SELECT account FROM hop WHERE account IS NOT NULL
$$;
GRANT EXECUTE ON FUNCTION nottwice.accounts_that_wait
    TO nottwice_worker, nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- A new key is for the account that the provider's name stands for now. Whoever asked for it and whoever agrees must
-- mean the same one.
ALTER TABLE nottwice.requests ADD COLUMN account text, ADD COLUMN place text NOT NULL DEFAULT '';
GRANT INSERT (account, place) ON nottwice.requests TO nottwice_support, nottwice_engineer, nottwice_admin;

CREATE OR REPLACE FUNCTION nottwice.next_generation(old_id bigint, wait_s double precision)
RETURNS TABLE (id bigint, due_at timestamptz, now timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    made bigint;
    due  timestamptz := transaction_timestamp() + make_interval(secs => wait_s);
BEGIN
    IF NOT EXISTS (SELECT FROM nottwice.requests r JOIN nottwice.actions a ON a.id = r.action_id
                   LEFT JOIN nottwice.providers p ON p.name = a.provider
                   WHERE r.action_id = old_id AND r.decision = 'agreed' AND r.decided_at = transaction_timestamp()
                     AND r.decided_by <> r.requested_by AND a.state = 'closed'
                     AND coalesce(r.account, a.account) = coalesce(p.account, a.account)) THEN
        RAISE EXCEPTION 'a new key takes the agreement of a second person' USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO nottwice.actions AS new (namespace, action_key, key_digest, generation, kind, about, event_id, provider, account, provider_key,
            reference, policy, cost, cost_reason, content_digest, key_window_s, key_margin_s, evidence_s, retry_until, state, due_at, decided_send)
    SELECT o.namespace, o.action_key, o.key_digest, o.generation + 1, o.kind, o.about, o.event_id, o.provider, n.account,
           CASE WHEN n.window_s IS NOT NULL THEN k.key END,
           'nt-' || left(encode(sha256(nottwice.part('reference') || nottwice.part(convert_to(k.key, 'UTF8'))), 'hex'), 16),
           o.policy, o.cost, o.cost_reason,
           CASE WHEN n.account = o.account THEN o.content_digest
                ELSE (SELECT nottwice.request_digest(o.provider, n.account, c.recipients, c.content)
                      FROM nottwice.action_contents c WHERE c.action_id = o.id) END,
           n.window_s, n.margin_s, o.evidence_s,
           due + greatest(o.retry_until - o.created_at, interval '1 hour'), 'approved', due, true
    FROM nottwice.actions o LEFT JOIN nottwice.providers p ON p.name = o.provider AND p.account <> o.account,
         LATERAL (SELECT coalesce(p.account, o.account) AS account,
                         CASE WHEN p.name IS NULL THEN o.key_window_s ELSE p.key_window_s END AS window_s,
                         coalesce(p.key_margin_s, o.key_margin_s) AS margin_s) n,
         LATERAL (SELECT nottwice.provider_key(o.namespace, n.account, o.key_digest, o.generation + 1) AS key) k
    WHERE o.id = old_id
    RETURNING new.id INTO made;
    INSERT INTO nottwice.action_contents (action_id, content, recipients, subject)
    SELECT made, c.content, c.recipients, c.subject FROM nottwice.action_contents c WHERE c.action_id = old_id;
    RETURN QUERY SELECT made, due, transaction_timestamp();
END
$$;
