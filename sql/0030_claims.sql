-- Claim and completion, the two statements of every event, as functions: a server keeps a function's plan for as long as a
-- connection lives, behind a pooler too, where statements are not prepared. Planning the claim anew took longer than
-- claiming fifty events. The plans are made without statistics (a table that was empty a minute ago has none, and a queue
-- never has good ones): by the indexes that were made for them, whatever is estimated.

-- Namespaces take turns: each range (namespace, source, type) offers its oldest due rows, then the first of each
-- namespace go before the second of any. Every range is apart in the index, so a flood costs nobody else.
-- The rows that were offered but not taken are free again when this short transaction ends.
--
-- Without `in_namespaces`: every namespace that has something pending, from its oldest on. With it, `in_sources` and
-- `in_types` are its ranges, and each begins behind (in_dues, in_after): what was claimed lately is not walked over again,
-- which matters while another transaction keeps vacuum from removing it.
--
-- A row with an ordering key goes only when nobody goes before it; else it is blocked, and `order.line_up` sees to it.
CREATE FUNCTION nottwice.claim_events(
    in_worker uuid, in_sources text[], in_types text[], in_namespaces text[], in_dues timestamptz[], in_after bigint[],
    in_alone boolean, in_limit integer, in_lease_s double precision, in_attempts_max integer)
RETURNS TABLE (id bigint, namespace text, source text, type text, event_key text, body bytea, accepted_at timestamptz, occurred_at timestamptz,
               mode text, run integer, claim_token uuid, attempts integer, attempts_max integer, alone boolean, passed_over bigint,
               overtaken_by bigint, in_lane boolean, was_due_at timestamptz, blocked bigint[], behind bigint[])
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    all_sources text[] := in_sources;
    all_types text[] := in_types;
BEGIN
    IF in_namespaces IS NULL THEN
        SELECT array_agg(n.namespace), array_agg(h.source), array_agg(h.type), array_agg('-infinity'::timestamptz), array_agg(0::bigint)
        INTO in_namespaces, in_sources, in_types, in_dues, in_after
        FROM nottwice.namespaces_with_pending() AS n(namespace) CROSS JOIN unnest(all_sources, all_types) AS h(source, type);
    ELSE
        SELECT array_agg(k.source), array_agg(k.type) INTO all_sources, all_types
        FROM (SELECT DISTINCT r.source, r.type FROM unnest(in_sources, in_types) AS r(source, type)) AS k;
    END IF;
    RETURN QUERY
    WITH usual AS MATERIALIZED (
        SELECT e.id, e.namespace, e.due_at, e.ordering_digest
        FROM unnest(in_namespaces, in_sources, in_types, in_dues, in_after) AS r(namespace, source, type, due_at, id)
        CROSS JOIN LATERAL (
            SELECT c.id, c.namespace, c.due_at, c.ordering_digest FROM nottwice.events c
            WHERE NOT in_alone AND NOT c.alone
              AND c.state = 'pending' AND c.namespace = r.namespace AND c.source = r.source AND c.type = r.type
              AND c.waits_behind = 0 AND c.due_at <= now() AND (c.due_at, c.id) > (r.due_at, r.id)
            ORDER BY c.due_at, c.id LIMIT in_limit
            FOR NO KEY UPDATE SKIP LOCKED) AS e),
    rescued AS MATERIALIZED (  -- apart, because these words are what its index is found by
        SELECT e.id, e.namespace, e.due_at, e.ordering_digest
        FROM unnest(in_namespaces, in_sources, in_types) AS r(namespace, source, type)
        CROSS JOIN LATERAL (
            SELECT c.id, c.namespace, c.due_at, c.ordering_digest FROM nottwice.events c
            WHERE in_alone AND c.alone
              AND c.state = 'pending' AND c.namespace = r.namespace AND c.source = r.source AND c.type = r.type
              AND c.waits_behind = 0 AND c.due_at <= now()
            ORDER BY c.due_at, c.id LIMIT in_limit
            FOR NO KEY UPDATE SKIP LOCKED) AS e),
    offered AS (SELECT * FROM usual UNION ALL SELECT * FROM rescued),
    judged AS MATERIALIZED (
        SELECT o.id, o.namespace, o.due_at, CASE WHEN o.ordering_digest IS NOT NULL THEN
            nottwice.goes_before(o.namespace, o.ordering_digest, o.id, all_sources, all_types) END AS behind
        FROM offered o),
    ranked AS (
        SELECT j.id, j.due_at, row_number() OVER (PARTITION BY j.namespace ORDER BY j.due_at, j.id) AS turn
        FROM judged j WHERE j.behind IS NULL),
    taken AS MATERIALIZED (
        SELECT r.id, r.due_at FROM ranked r ORDER BY r.turn, r.due_at, r.id LIMIT in_limit),
    claimed AS (
        UPDATE nottwice.events e SET
            state = 'processing', due_at = NULL, attempts = e.attempts + 1, claim_token = gen_random_uuid(), claimed_by = in_worker,
            claimed_at = now(), lease_until = now() + make_interval(secs => in_lease_s), version = e.version + 1,
            attempts_max = CASE WHEN e.attempts = 0 THEN in_attempts_max ELSE e.attempts_max END,
            passed_over = CASE WHEN e.ordering_digest IS NOT NULL THEN nottwice.set_aside_before(e.namespace, e.ordering_digest, e.id) END,
            overtaken_by = CASE WHEN e.ordering_digest IS NOT NULL THEN nottwice.done_after(e.namespace, e.ordering_digest, e.id) END
        WHERE e.id = ANY (ARRAY(SELECT t.id FROM taken t))
        RETURNING e.id, e.namespace, e.source, e.type, e.event_key, (SELECT b.body FROM nottwice.event_contents b WHERE b.event_id = e.id) AS body,
                  e.accepted_at, e.occurred_at, e.mode, e.run, e.claim_token, e.attempts, e.attempts_max, e.alone, e.passed_over, e.overtaken_by,
                  e.ordering_digest IS NOT NULL AS in_lane)
    SELECT c.*, t.due_at, b.blocked, b.behind
    FROM (SELECT array_agg(j.id) AS blocked, array_agg(j.behind) AS behind FROM judged j WHERE j.behind IS NOT NULL) AS b
    LEFT JOIN (claimed c JOIN taken t ON t.id = c.id) ON true;
END
$$;

-- Ends a group's claims. The token decides: it is there only while an event is processing, by a CHECK. That word itself
-- would let a planner walk through the index of leases. The caller sorts the ids, so that rows are locked in their order.
CREATE FUNCTION nottwice.complete_events(in_ids bigint[], in_tokens uuid[])
RETURNS TABLE (id bigint, namespace text, in_lane boolean) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    UPDATE nottwice.events e SET
        state = 'completed', ending = 'done', ended_at = now(), alone = false, last_error = NULL, version = e.version + 1,
        claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL
    FROM unnest(in_ids, in_tokens) AS l(id, token)
    WHERE e.id = ANY (in_ids) AND e.id = l.id AND e.claim_token = l.token
    RETURNING e.id, e.namespace, e.ordering_digest IS NOT NULL;
END
$$;

REVOKE EXECUTE ON FUNCTION nottwice.claim_events, nottwice.complete_events FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.claim_events, nottwice.complete_events TO nottwice_worker;
