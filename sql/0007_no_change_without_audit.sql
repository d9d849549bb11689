-- No change by a person without its audit row, by the database itself. A process (receiver, worker) is not a person:
-- what it does is recorded on the rows. A person acts under one of the person roles, whoever logged in.

CREATE FUNCTION nottwice.a_person_acts() RETURNS boolean LANGUAGE sql STABLE AS $$
    -- Not current_user: inside a SECURITY DEFINER function that is the owner. SET LOCAL ROLE shows in the setting.
    SELECT current_setting('role') IN ('nottwice_viewer', 'nottwice_support', 'nottwice_engineer', 'nottwice_auditor', 'nottwice_admin')
        OR session_user = 'nottwice_console'
$$;

-- What this transaction notes that a person did with a thing: for those who ask whether it says enough.
CREATE FUNCTION nottwice.noted_now(of text, number bigint, person bigint) RETURNS SETOF nottwice.audit LANGUAGE sql STABLE AS $$
    SELECT a.* FROM nottwice.audit a
    WHERE a.entity = of AND a.entity_id = number AND a.person_id = person AND a.outcome = 'done'
      AND a.transaction = pg_current_xact_id()
$$;

-- After the statement: each changed row's version rose by one, and this transaction holds the audit row that says so.
CREATE FUNCTION nottwice.change_is_audited() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    bad bigint;
BEGIN
    IF NOT nottwice.a_person_acts() THEN
        RETURN NULL;
    END IF;
    SELECT n.id INTO bad
    FROM new_rows n JOIN old_rows o ON o.id = n.id
    WHERE n.version IS DISTINCT FROM o.version + 1
       OR NOT EXISTS (
            SELECT FROM nottwice.audit a
            WHERE a.entity = TG_ARGV[0] AND a.entity_id = n.id AND a.entity_version = n.version
              AND a.outcome = 'done' AND a.person_id IS NOT NULL
              AND a.state_before IS NOT DISTINCT FROM o.state AND a.state_after IS NOT DISTINCT FROM n.state
              AND a.transaction = pg_current_xact_id())
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'no change without its audit row: % %', TG_ARGV[0], bad USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER an_event_changes_with_its_audit_row AFTER UPDATE ON nottwice.events
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION nottwice.change_is_audited('event');
CREATE TRIGGER an_action_changes_with_its_audit_row AFTER UPDATE ON nottwice.actions
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION nottwice.change_is_audited('action');

-- At commit: an audit row that claims a change was followed by that change, whatever has a version and a state.
CREATE FUNCTION nottwice.audit_tells_the_truth() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    made boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM nottwice.%I WHERE id = $1 AND version >= $2 AND (version > $2 OR state = $3))',
                   CASE NEW.entity WHEN 'reprocess' THEN 'reprocess_runs' WHEN 'together' THEN 'together' ELSE NEW.entity || 's' END)
        INTO made USING NEW.entity_id, NEW.entity_version, NEW.state_after;
    IF NOT made THEN
        RAISE EXCEPTION 'audit row % claims a change that was not made', NEW.id USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER an_audit_row_claims_only_what_happened AFTER INSERT ON nottwice.audit
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.outcome = 'done' AND NEW.entity_version IS NOT NULL
          AND NEW.entity IN ('event', 'action', 'conflict', 'reprocess', 'together'))
    EXECUTE FUNCTION nottwice.audit_tells_the_truth();

-- What a list or a review page needs of the content, without its body: recipients by role, and the subject.
GRANT SELECT (action_id, recipients, subject) ON nottwice.action_contents TO nottwice_support, nottwice_auditor, nottwice_admin;
