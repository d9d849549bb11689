-- Order: events with one ordering key (a lane, within its namespace) run one at a time, in the order of their ids. And what
-- an idle worker is told.

-- A stranger chooses the key, so a row holds its digest. Ids are given in the order in which deliveries arrived, so the
-- receiver draws them itself: rows are written in the order of their keys, against deadlocks.
ALTER TABLE nottwice.events
    ADD COLUMN ordering_digest bytea CONSTRAINT an_ordering_digest_is_sha256 CHECK (octet_length(ordering_digest) = 32),
    -- Who goes first, while this one is lined up: until that event has ended, this one is offered to nobody. 0: nobody.
    ADD COLUMN waits_behind    bigint NOT NULL DEFAULT 0,
    -- What its last claim found: the nearest earlier one that was set aside, and the last of the later ones that are done.
    ADD COLUMN passed_over     bigint,
    ADD COLUMN overtaken_by    bigint,
    ADD CONSTRAINT only_a_pending_event_of_a_lane_waits CHECK (
        waits_behind = 0 OR (state = 'pending' AND ordering_digest IS NOT NULL));

-- The claim's index, as before; what is lined up stands apart in it, so that one long lane stands in nobody's way.
DROP INDEX nottwice.events_pending;
CREATE INDEX events_pending ON nottwice.events (namespace, source, type, waits_behind, due_at, id) WHERE state = 'pending';

-- The referee: whoever claims a second one of a lane is refused, whatever its statement saw.
CREATE UNIQUE INDEX one_of_a_lane_at_a_time ON nottwice.events (namespace, ordering_digest)
    WHERE state = 'processing' AND ordering_digest IS NOT NULL;
CREATE INDEX events_of_a_lane ON nottwice.events (namespace, ordering_digest, source, type, id)
    WHERE state = 'pending' AND ordering_digest IS NOT NULL;
CREATE INDEX events_lined_up ON nottwice.events (waits_behind) WHERE waits_behind <> 0;
-- Written once an event; what was ignored or unhandled never ran.
CREATE INDEX events_of_a_lane_ended ON nottwice.events (namespace, ordering_digest, state, id)
    WHERE ordering_digest IS NOT NULL AND (state = 'failed' OR ending = 'done');

-- The kinds that some worker has (or lately had) a handler for, and those of the worker that asks. Others stand in
-- nobody's way.
CREATE FUNCTION nottwice.kinds_handled(sources text[], types text[]) RETURNS TABLE (source text, type text) LANGUAGE sql STABLE AS $$
    SELECT * FROM unnest(sources, types)
    UNION
    SELECT split_part(h, ' ', 1), substr(h, strpos(h, ' ') + 1) FROM nottwice.workers w, unnest(w.handles) AS h WHERE w.kind = 'worker'
$$;

-- Kinds of what is pending, by namespace, found by hopping through the index: the cost grows with the number of kinds.
CREATE FUNCTION nottwice.kinds_pending() RETURNS TABLE (namespace text, source text, type text) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE hop AS (
        (SELECT e.namespace, e.source, e.type FROM nottwice.events e WHERE e.state = 'pending'
         ORDER BY e.namespace, e.source, e.type LIMIT 1)
        UNION ALL
        SELECT n.namespace, n.source, n.type FROM hop, LATERAL (
            SELECT e.namespace, e.source, e.type FROM nottwice.events e
            WHERE e.state = 'pending' AND (e.namespace, e.source, e.type) > (hop.namespace, hop.source, hop.type)
            ORDER BY e.namespace, e.source, e.type LIMIT 1) AS n)
    SELECT hop.namespace, hop.source, hop.type FROM hop
$$;
-- Those of them that no worker has a handler for; none while no worker ever came.
CREATE FUNCTION nottwice.kinds_unhandled() RETURNS TABLE (namespace text, source text, type text) LANGUAGE sql STABLE AS $$
    SELECT p.namespace, p.source, p.type FROM nottwice.kinds_pending() AS p
    WHERE EXISTS (SELECT FROM nottwice.workers WHERE kind = 'worker')
      AND (p.source, p.type) NOT IN (SELECT k.source, k.type FROM nottwice.kinds_handled('{}', '{}') AS k)
$$;

-- Whom an event of a lane waits for: the nearest earlier one of a handled kind that is pending, due or not, else the one
-- that is being worked. NULL: it goes first.
CREATE FUNCTION nottwice.goes_before(in_namespace text, lane bytea, event bigint, sources text[], types text[]) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT max(earlier.id) FROM nottwice.kinds_handled(sources, types) AS k CROSS JOIN LATERAL (
            SELECT e.id FROM nottwice.events e
            WHERE e.state = 'pending' AND e.namespace = in_namespace AND e.ordering_digest = lane
              AND e.source = k.source AND e.type = k.type AND e.id < event
            ORDER BY e.id DESC LIMIT 1) AS earlier),
        (SELECT e.id FROM nottwice.events e
         WHERE e.state = 'processing' AND e.namespace = in_namespace AND e.ordering_digest = lane))
$$;

-- The nearest earlier one of its lane that was set aside.
CREATE FUNCTION nottwice.set_aside_before(in_namespace text, lane bytea, event bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT e.id FROM nottwice.events e
    WHERE e.namespace = in_namespace AND e.ordering_digest = lane AND e.state = 'failed' AND e.id < event ORDER BY e.id DESC LIMIT 1
$$;

-- The last one of its lane that is done, when that is a later one.
CREATE FUNCTION nottwice.done_after(in_namespace text, lane bytea, event bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT e.id FROM nottwice.events e
    WHERE e.namespace = in_namespace AND e.ordering_digest = lane AND e.state = 'completed' AND e.ending = 'done' AND e.id > event
    ORDER BY e.id DESC LIMIT 1
$$;

-- As in 0006, without what is lined up.
CREATE OR REPLACE FUNCTION nottwice.work_is_due(sources text[], types text[], accounts text[])
RETURNS boolean LANGUAGE sql VOLATILE AS $$
    -- LIMIT keeps each probe a probe: as EXISTS, a planner that hopes for a match reads the whole table when there is none.
    SELECT EXISTS (
        SELECT FROM nottwice.namespaces_with_pending() AS n(namespace)
        CROSS JOIN unnest(sources, types) AS h(source, type)
        CROSS JOIN LATERAL (
            SELECT FROM nottwice.events e
            WHERE e.state = 'pending' AND e.namespace = n.namespace AND e.source = h.source AND e.type = h.type
              AND e.waits_behind = 0 AND e.due_at <= clock_timestamp()
            ORDER BY e.due_at LIMIT 1) AS due)
    OR EXISTS (
        SELECT FROM unnest(accounts) AS a(account)
        WHERE EXISTS (SELECT FROM nottwice.actions x
                      WHERE x.state = 'approved' AND x.account = a.account AND x.due_at <= clock_timestamp())
          AND nottwice.account_is_open(a.account))
$$;

-- The one statement of an idle worker: whether work is due, and which duties the ledger has something for. Only these are
-- then done, so that they need not ask one by one. The second statement sees what came while the first one waited. The
-- ORDER BYs keep each look a probe of a small index, as in 0006.
CREATE FUNCTION nottwice.wait_and_tell(sources text[], types text[], accounts text[], patience interval, pause interval)
RETURNS TABLE (due boolean, seal boolean, hint boolean, look boolean) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    due := nottwice.wait_for_work(sources, types, accounts, patience, pause);
    SELECT EXISTS (SELECT FROM (SELECT FROM nottwice.audit_unsealed ORDER BY audit_id LIMIT 1) AS u),
           EXISTS (SELECT FROM (SELECT FROM nottwice.actions WHERE state = 'needs_review' ORDER BY review_since, id LIMIT 1) AS r),
           EXISTS (SELECT FROM (SELECT FROM nottwice.lookups WHERE done_at IS NULL ORDER BY due_at, id LIMIT 1) AS l)
               OR EXISTS (SELECT FROM (SELECT FROM nottwice.sends_in_doubt ORDER BY until LIMIT 1) AS d)
    INTO seal, hint, look;
    RETURN NEXT;
END
$$;

GRANT EXECUTE ON FUNCTION nottwice.wait_and_tell, nottwice.kinds_handled, nottwice.kinds_unhandled, nottwice.goes_before, nottwice.set_aside_before, nottwice.done_after TO nottwice_worker;
GRANT USAGE ON SEQUENCE nottwice.events_id_seq TO nottwice_receiver;
GRANT SELECT (ordering_digest, waits_behind, passed_over, overtaken_by) ON nottwice.events
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
