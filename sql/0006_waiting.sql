-- An idle worker sends one statement a second; the server looks ten times for it.

-- True as soon as an event of a handled kind, or an action of one of the accounts, is due; false after `patience`.
-- `sources` and `types` are pairs. Each look is two index probes a pair. clock_timestamp(), because now() stands
-- still while this runs.
CREATE FUNCTION nottwice.wait_for_work(sources text[], types text[], accounts text[], patience interval, pause interval)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    stop_at timestamptz := clock_timestamp() + patience;
BEGIN
    LOOP
        IF nottwice.work_is_due(sources, types, accounts) THEN
            RETURN true;
        END IF;
        EXIT WHEN clock_timestamp() + pause > stop_at;
        PERFORM pg_sleep_for(pause);
    END LOOP;
    RETURN false;
END
$$;

-- The namespaces that have pending work, found by hopping through the index: its cost grows with the number of
-- namespaces, not with the number of events.
CREATE FUNCTION nottwice.namespaces_with_pending() RETURNS SETOF text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE hop AS (
        (SELECT namespace FROM nottwice.events WHERE state = 'pending' ORDER BY namespace LIMIT 1)
        UNION ALL
        SELECT (SELECT e.namespace FROM nottwice.events e
                WHERE e.state = 'pending' AND e.namespace > hop.namespace ORDER BY e.namespace LIMIT 1)
        FROM hop WHERE hop.namespace IS NOT NULL)
    SELECT namespace FROM hop WHERE namespace IS NOT NULL
$$;

CREATE FUNCTION nottwice.work_is_due(sources text[], types text[], accounts text[])
RETURNS boolean LANGUAGE sql VOLATILE AS $$
    -- LIMIT keeps each probe a probe: as EXISTS, a planner that hopes for a match reads the whole table when there is none.
    SELECT EXISTS (
        SELECT FROM nottwice.namespaces_with_pending() AS n(namespace)
        CROSS JOIN unnest(sources, types) AS h(source, type)
        CROSS JOIN LATERAL (
            SELECT FROM nottwice.events e
            WHERE e.state = 'pending' AND e.namespace = n.namespace AND e.source = h.source AND e.type = h.type
              AND e.due_at <= clock_timestamp()
            ORDER BY e.due_at LIMIT 1) AS due)
    OR EXISTS (
        SELECT FROM unnest(accounts) AS a(account)
        WHERE EXISTS (SELECT FROM nottwice.actions x
                      WHERE x.state = 'approved' AND x.account = a.account AND x.due_at <= clock_timestamp())
          AND nottwice.account_is_open(a.account))
$$;

GRANT EXECUTE ON FUNCTION nottwice.wait_for_work, nottwice.work_is_due, nottwice.namespaces_with_pending TO nottwice_worker;
