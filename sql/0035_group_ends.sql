-- The end of a group's claims, with its figures for the charts: one statement of one round, and what it says is usually
-- nothing, since usually no member lost its lease and none has a lane. The four indexes of ended events are unchanged.

DROP FUNCTION nottwice.complete_events(bigint[], uuid[]);

-- Ends a group's claims. The token decides: it is there only while an event is processing, by a CHECK. That word itself
-- would let a planner walk through the index of leases. The caller sorts the ids, so that rows are locked in their order.
-- `lost` are those that somebody else holds or has ended; `in_lane` are the ended ones that others may wait for.
CREATE FUNCTION nottwice.complete_events(in_ids bigint[], in_tokens uuid[], in_writer uuid, OUT lost bigint[], OUT in_lane bigint[])
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    ended bigint[];
BEGIN
    WITH done AS (
        UPDATE nottwice.events e SET
            state = 'completed', ending = 'done', ended_at = now(), alone = false, last_error = NULL, version = e.version + 1,
            claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL
        FROM unnest(in_ids, in_tokens) AS l(id, token)
        WHERE e.id = ANY (in_ids) AND e.id = l.id AND e.claim_token = l.token
        RETURNING e.id, e.namespace, e.ordering_digest),
    counted AS (
        INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
        SELECT date_trunc('minute', now()), d.namespace, 'completed', in_writer, count(*) FROM done d
        GROUP BY d.namespace ORDER BY d.namespace
        ON CONFLICT (minute, namespace, metric, writer) DO UPDATE SET n = nottwice.counters.n + excluded.n)
    SELECT array_agg(d.id), array_agg(d.id) FILTER (WHERE d.ordering_digest IS NOT NULL) INTO ended, in_lane FROM done d;
    IF cardinality(ended) IS DISTINCT FROM cardinality(in_ids) THEN
        lost := ARRAY(SELECT i.id FROM unnest(in_ids) AS i(id) WHERE i.id <> ALL (coalesce(ended, '{}')));
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION nottwice.complete_events FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.complete_events TO nottwice_worker;
