-- What a list says of its results, and what entries claim of requests, pauses and the house, is what happened.

-- ── Sends that are decided together ──────────────────────────────────────────────────────────────────

-- A send that is told of as decided was decided in this transaction, on record; and a list holds no more than it says.
CREATE FUNCTION nottwice.results_are_on_record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF nottwice.a_person_acts() AND (
        EXISTS (SELECT FROM new_rows n WHERE n.result = 'done' AND NOT EXISTS (
                    SELECT FROM nottwice.audit a
                    WHERE a.entity = 'action' AND a.entity_id = n.action_id AND a.entity_version = n.seen_version + 1
                      AND a.outcome = 'done' AND a.transaction = pg_current_xact_id()))
        OR EXISTS (SELECT FROM nottwice.together t WHERE t.id IN (SELECT n.together_id FROM new_rows n) AND t.row_count < (
                    SELECT count(*) FROM nottwice.together_rows w WHERE w.together_id = t.id AND w.result <> 'left'))) THEN
        RAISE EXCEPTION 'no result of a shared decision without its audit row' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER results_of_a_list_are_on_record AFTER INSERT ON nottwice.together_rows
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION nottwice.results_are_on_record();
CREATE TRIGGER later_results_of_a_list_are_on_record AFTER UPDATE ON nottwice.together_rows
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION nottwice.results_are_on_record();

-- Results are written once, with the agreement: in the transaction whose entry carries the list's version.
CREATE FUNCTION nottwice.results_come_with_the_answer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF nottwice.a_person_acts() AND (
        EXISTS (SELECT FROM new_rows n WHERE n.result = 'waiting')
        OR EXISTS (SELECT FROM old_rows o JOIN nottwice.together t ON t.id = o.together_id
                   WHERE o.result <> 'waiting' OR t.state <> 'done' OR NOT EXISTS (
                       SELECT FROM nottwice.audit a WHERE a.entity = 'together' AND a.entity_id = t.id AND a.entity_version = t.version
                         AND a.transaction = pg_current_xact_id()))) THEN
        RAISE EXCEPTION 'results of a shared decision stand as they were' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER results_of_a_list_come_with_its_answer AFTER UPDATE ON nottwice.together_rows
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION nottwice.results_come_with_the_answer();

-- ── Entries ──────────────────────────────────────────────────────────────────────────────────────────

-- At commit: an entry of a person that claims a change of what has no version and state of its own was followed by it
-- (the others: 0007). An entry written ahead would also take the place of the true one.
CREATE FUNCTION nottwice.is_true(of nottwice.audit) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    SELECT CASE
        WHEN of.entity = 'request' THEN EXISTS (
            SELECT FROM nottwice.stuck_requests r WHERE r.id = of.entity_id AND r.version >= coalesce(of.entity_version, 1))
        WHEN of.entity = 'provider' THEN of.act = 'resume' AND EXISTS (
            SELECT FROM nottwice.provider_pauses p WHERE p.id = of.entity_id AND p.paused_until = now())
        WHEN of.entity = 'installation' THEN of.act = 'release sending' AND EXISTS (
            SELECT FROM nottwice.installation i WHERE i.held_since IS NULL AND i.xmin = CAST(pg_current_xact_id() AS xid))
        WHEN of.entity = 'event' AND of.act IN ('try again', 'set aside', 'hand back') THEN of.entity_version IS NOT NULL
        ELSE true END
$$;
REVOKE EXECUTE ON FUNCTION nottwice.is_true FROM PUBLIC;

CREATE FUNCTION nottwice.entries_are_true() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF nottwice.a_person_acts() AND NOT coalesce(nottwice.is_true(NEW), false) THEN
        RAISE EXCEPTION 'audit row % claims a change that was not made', NEW.id USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER an_entry_claims_only_what_happened AFTER INSERT ON nottwice.audit
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.outcome = 'done' AND (NEW.entity IN ('request', 'provider', 'installation')
                                    OR NEW.entity = 'event' AND NEW.entity_version IS NULL))
    EXECUTE FUNCTION nottwice.entries_are_true();
