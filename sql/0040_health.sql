-- What a person sees of how the house keeps up: the oldest transaction, clocks, growth; and a pause that a person ends.

-- One row an hour, for charts and for the growth of a day; rows older than a month go. Kinds of tables, not tables: a
-- line each. `oldest_transaction_s` is the longest seen in that hour.
CREATE TABLE nottwice.samples (
    hour                  timestamptz PRIMARY KEY,
    taken_at              timestamptz NOT NULL DEFAULT now(),
    events_bytes          bigint NOT NULL,   -- rows of events, their attempts, repeats and conflicts
    event_contents_bytes  bigint NOT NULL,
    sends_bytes           bigint NOT NULL,   -- actions with all that belongs to them
    record_bytes          bigint NOT NULL,   -- the audit and its seals
    others_bytes          bigint NOT NULL,
    oldest_transaction_s  double precision NOT NULL
);

CREATE FUNCTION nottwice.kind_of_table(name name) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN name = 'event_contents' THEN 'event contents'
                WHEN name ~ '^(event|duplicate|conflict|quarantine)' THEN 'events'
                WHEN name ~ '^(action|evidence|message|request|lookup)' THEN 'sends'
                WHEN name ~ '^audit' THEN 'record'
                ELSE 'others' END
$$;

-- With indexes and what is stored beside the rows. Reads sizes of files, no rows.
CREATE FUNCTION nottwice.table_bytes() RETURNS TABLE (kind text, bytes bigint) LANGUAGE sql STABLE AS $$
    SELECT nottwice.kind_of_table(c.relname), CAST(sum(pg_total_relation_size(c.oid)) AS bigint)
    FROM pg_class c WHERE c.relnamespace = CAST('nottwice' AS regnamespace) AND c.relkind = 'r' GROUP BY 1
$$;

-- The longest open transaction of this database, prepared ones included: vacuum removes nothing that died after it
-- began. Under the owner's rights, as sessions of others are hidden from each login; `hidden` is how many are hidden
-- from the owner too (pg_read_all_stats shows them). No statement's text leaves this function.
CREATE FUNCTION nottwice.oldest_transaction(OUT age_s double precision, OUT who text, OUT hidden bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    WITH sessions AS (
        SELECT xact_start AS since, format('process %s of %s, %s', pid, coalesce(usename, '?'), state) AS who,
               query = '<insufficient privilege>' AS hidden
        FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
        UNION ALL
        SELECT prepared, format('prepared as %s by %s', left(gid, 40), owner), false
        FROM pg_prepared_xacts WHERE database = current_database()),
    oldest AS (SELECT since, who FROM sessions WHERE since IS NOT NULL ORDER BY since LIMIT 1)
    SELECT greatest(0, coalesce(extract(epoch FROM clock_timestamp() - (SELECT since FROM oldest)), 0)),
           coalesce((SELECT who FROM oldest), ''), (SELECT count(*) FROM sessions WHERE hidden)
$$;
REVOKE EXECUTE ON FUNCTION nottwice.oldest_transaction FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.oldest_transaction
    TO nottwice_worker, nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- How far the clock of a process's host is ahead of the database's, as of its last sign; the way there counts as behind.
ALTER TABLE nottwice.workers ADD COLUMN ahead_s double precision NOT NULL DEFAULT 0;

-- Which pause a person looked at: a later one of the same account is another.
ALTER TABLE nottwice.provider_pauses ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY UNIQUE;

-- A person's only way to end a pause: behind the audit row of this very transaction. One send tries the account then.
CREATE FUNCTION nottwice.resume_account(audit_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    UPDATE nottwice.provider_pauses SET paused_until = now()
    WHERE paused_until > clock_timestamp()
      AND id = (SELECT u.entity_id FROM nottwice.audit u
                WHERE u.id = audit_id AND u.entity = 'provider' AND u.act = 'resume' AND u.outcome = 'done'
                  AND u.person_id IS NOT NULL AND u.transaction = pg_current_xact_id());
    RETURN FOUND;
END
$$;
REVOKE EXECUTE ON FUNCTION nottwice.resume_account FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.resume_account TO nottwice_admin;

-- What waits for a worker, by kind: the kinds found by hopping through their index, each then counted in it alone. Grouping
-- the backlog would compare two texts a row.
CREATE FUNCTION nottwice.pending_kinds() RETURNS TABLE (source text, type text, n bigint, due_at timestamptz) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE kinds AS (
        (SELECT e.namespace, e.source, e.type FROM nottwice.events e WHERE e.state = 'pending'
         ORDER BY e.namespace, e.source, e.type LIMIT 1)
        UNION ALL
        SELECT further.* FROM kinds k, LATERAL (
            SELECT e.namespace, e.source, e.type FROM nottwice.events e
            WHERE e.state = 'pending' AND (e.namespace, e.source, e.type) > (k.namespace, k.source, k.type)
            ORDER BY e.namespace, e.source, e.type LIMIT 1) AS further)
    SELECT k.source, k.type, counted.n, counted.due_at
    FROM kinds k, LATERAL (SELECT count(*) AS n, min(e.due_at) AS due_at FROM nottwice.events e
                           WHERE e.state = 'pending' AND e.namespace = k.namespace AND e.source = k.source AND e.type = k.type) AS counted
$$;

-- Keys that were busy: few, and asked for with every look at what somebody should see.
CREATE INDEX attempts_in_flight ON nottwice.action_attempts (action_id) WHERE outcome = 'in_flight';
-- What was delivered, for today's figure: read without the table, beside messages_not_arrived.
CREATE INDEX messages_arrived ON nottwice.messages (seen_at) WHERE standing IN ('delivered', 'complained') AND action_id IS NOT NULL;
CREATE INDEX catch_ups_open ON nottwice.catch_ups (started_at) WHERE ended_at IS NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON nottwice.samples TO nottwice_worker;
GRANT SELECT ON nottwice.catch_ups TO nottwice_worker;
GRANT SELECT ON nottwice.samples TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
