-- What the Events page asks for: lists that never walk through history, and bodies behind the audit.

-- The name by which a provider knows an event: its key without the type that some sources put ahead of it, and not
-- more of it than an index should hold.
CREATE FUNCTION nottwice.known_as(type text, event_key text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT left(CASE WHEN starts_with(event_key, type || ' ') THEN substr(event_key, length(type) + 2) ELSE event_key END, 60)
$$;

-- Ended events only: one entry an event, written once. What still lives is found through its own small indexes.
CREATE INDEX events_done ON nottwice.events (source, type, id) WHERE state = 'completed';
CREATE INDEX events_known ON nottwice.events ((nottwice.known_as(type, event_key) COLLATE "C"), id) WHERE state = 'completed';
CREATE INDEX conflicts_open ON nottwice.conflicts (id) WHERE acknowledged_at IS NULL;
CREATE INDEX evidence_from_event ON nottwice.evidence (event_id) WHERE event_id IS NOT NULL;

-- Source and type of all ended events, found by hopping through the index: its cost grows with their number, not with
-- the number of events.
CREATE FUNCTION nottwice.kinds_done() RETURNS TABLE (source text, type text) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE hop AS (
        (SELECT e.source, e.type FROM nottwice.events e WHERE e.state = 'completed' ORDER BY e.source, e.type LIMIT 1)
        UNION ALL
        SELECT n.source, n.type FROM hop, LATERAL (
            SELECT e.source, e.type FROM nottwice.events e
            WHERE e.state = 'completed' AND (e.source, e.type) > (hop.source, hop.type)
            ORDER BY e.source, e.type LIMIT 1) AS n)
    SELECT hop.source, hop.type FROM hop
$$;

-- The lowest id whose event was accepted at or after a moment, by bisection over the primary key: some sixty probes
-- instead of an index that every event would have to be entered into three times. Ids rise with time, except among
-- transactions that ran at once; whoever asks leaves some seconds on either side.
CREATE FUNCTION nottwice.first_event_from(moment timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    low    bigint;
    high   bigint;
    middle bigint;
    probe  record;
BEGIN
    SELECT coalesce(min(id), 1), coalesce(max(id), 0) + 1 INTO low, high FROM nottwice.events;
    WHILE low < high LOOP
        middle := low + (high - low) / 2;
        SELECT e.id, e.accepted_at INTO probe FROM nottwice.events e WHERE e.id >= middle ORDER BY e.id LIMIT 1;
        IF probe.id IS NULL OR probe.accepted_at >= moment THEN
            high := middle;
        ELSE
            low := probe.id + 1;
        END IF;
    END LOOP;
    RETURN low;
END
$$;

-- How long a body is, for people who may not read it.
CREATE VIEW nottwice.event_sizes AS
    SELECT event_id, content_type, octet_length(body) AS bytes FROM nottwice.event_contents;
CREATE VIEW nottwice.conflict_sizes AS SELECT id, octet_length(body) AS bytes FROM nottwice.conflicts;
CREATE VIEW nottwice.quarantine_sizes AS SELECT id, octet_length(body) AS bytes FROM nottwice.quarantine;
GRANT SELECT ON nottwice.event_sizes, nottwice.conflict_sizes, nottwice.quarantine_sizes
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- ── A conflict is marked as seen, by a person ────────────────────────────────────────────────────────

GRANT UPDATE (acknowledged_at, version) ON nottwice.conflicts TO nottwice_support, nottwice_engineer, nottwice_admin;

CREATE TRIGGER a_conflict_changes_with_its_audit_row AFTER UPDATE ON nottwice.conflicts
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION nottwice.change_is_audited('conflict');

-- ── Bodies, behind the audit ─────────────────────────────────────────────────────────────────────────

-- One door for all bodies. A body is read by a person only behind an audit row of an earlier, committed transaction
-- of the same person's role, in which an engineer and an auditor say why; NULL when it is no longer kept.
CREATE FUNCTION nottwice.reveal(audit_id bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    noted record;
BEGIN
    SELECT a.entity, a.entity_id INTO noted FROM nottwice.audit a
    WHERE a.id = audit_id AND a.act = 'reveal' AND a.outcome = 'done' AND a.person_id IS NOT NULL
      AND a.role = replace(current_setting('role'), 'nottwice_', '') AND a.role <> 'viewer'
      AND (a.role NOT IN ('engineer', 'auditor') OR btrim(a.why) <> '')
      AND a.transaction <> pg_current_xact_id() AND a.at > now() - interval '15 minutes';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'nothing is shown without an audit row that says so first' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN CASE noted.entity
        WHEN 'action' THEN (SELECT c.content FROM nottwice.action_contents c WHERE c.action_id = noted.entity_id)
        WHEN 'event' THEN (SELECT c.body FROM nottwice.event_contents c WHERE c.event_id = noted.entity_id)
        WHEN 'conflict' THEN (SELECT c.body FROM nottwice.conflicts c WHERE c.id = noted.entity_id)
        WHEN 'quarantine' THEN (SELECT q.body FROM nottwice.quarantine q WHERE q.id = noted.entity_id)
        WHEN 'finding' THEN (SELECT f.content FROM nottwice.reprocess_findings f WHERE f.id = noted.entity_id)
    END;
END
$$;
REVOKE EXECUTE ON FUNCTION nottwice.reveal FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.reveal TO nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- Where a later content differs from the first, without the values: the names of members, and on which side each is.
-- What is equal is not gone into, so that two long contents with few differences are compared soon. Nothing comes back
-- when one of the two is gone or is no document that PostgreSQL can hold.
CREATE FUNCTION nottwice.changed_paths(wanted bigint, most integer)
RETURNS TABLE (path text[], in_first boolean, in_later boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    earlier jsonb;
    later   jsonb;
BEGIN
    SELECT CAST(replace(convert_from(f.body, 'UTF8'), '\u0000', '\ufffd') AS jsonb),
           CAST(replace(convert_from(c.body, 'UTF8'), '\u0000', '\ufffd') AS jsonb) INTO earlier, later
    FROM nottwice.conflicts c JOIN nottwice.event_contents f ON f.event_id = c.event_id WHERE c.id = wanted;
    RETURN QUERY
        WITH RECURSIVE pair AS (
            SELECT CAST('{}' AS text[]) AS at, earlier AS a, later AS b, nottwice.parts_of(earlier, later) AS parts
            WHERE earlier IS DISTINCT FROM later
            UNION ALL
            SELECT pair.at || part.name, part.a, part.b, nottwice.parts_of(part.a, part.b) FROM pair, LATERAL (
                SELECT coalesce(x.key, y.key) AS name, x.value AS a, y.value AS b
                FROM jsonb_each(CASE pair.parts WHEN 'object' THEN pair.a END) AS x
                FULL JOIN jsonb_each(CASE pair.parts WHEN 'object' THEN pair.b END) AS y ON y.key = x.key
                UNION ALL
                SELECT CAST(coalesce(x.n, y.n) - 1 AS text), x.value, y.value
                FROM jsonb_array_elements(CASE pair.parts WHEN 'array' THEN pair.a END) WITH ORDINALITY AS x(value, n)
                FULL JOIN jsonb_array_elements(CASE pair.parts WHEN 'array' THEN pair.b END) WITH ORDINALITY AS y(value, n)
                       ON y.n = x.n) AS part
            WHERE part.a IS DISTINCT FROM part.b)
        SELECT pair.at, pair.a IS NOT NULL, pair.b IS NOT NULL FROM pair WHERE pair.parts IS NULL ORDER BY 1 LIMIT most;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN;
END
$$;
REVOKE EXECUTE ON FUNCTION nottwice.changed_paths FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.changed_paths TO nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- What two values have parts as: both objects, or both lists; NULL for everything else.
CREATE FUNCTION nottwice.parts_of(a jsonb, b jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(a) = jsonb_typeof(b) AND jsonb_typeof(a) IN ('object', 'array') THEN jsonb_typeof(a) END
$$;
