-- No change by a person without its audit row, by the database itself. A process (receiver, worker) is not a person:
-- what it does is recorded on the rows. A person acts under one of the person roles, whoever logged in.

CREATE FUNCTION nottwice.a_person_acts() RETURNS boolean LANGUAGE sql STABLE AS $$
    -- Not current_user: inside a SECURITY DEFINER function that is the owner. SET LOCAL ROLE shows in the setting.
    SELECT current_setting('role') IN ('nottwice_viewer', 'nottwice_support', 'nottwice_engineer', 'nottwice_auditor', 'nottwice_admin')
        OR session_user = 'nottwice_console'
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

-- At commit: an audit row that claims a change was followed by that change.
CREATE FUNCTION nottwice.audit_tells_the_truth() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    made boolean;
BEGIN
    IF NEW.outcome <> 'done' OR NEW.entity_version IS NULL OR NEW.entity NOT IN ('event', 'action') THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM nottwice.%I WHERE id = $1 AND version >= $2 AND (version > $2 OR state = $3))',
                   NEW.entity || 's')
        INTO made USING NEW.entity_id, NEW.entity_version, NEW.state_after;
    IF NOT made THEN
        RAISE EXCEPTION 'audit row % claims a change that was not made', NEW.id USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER an_audit_row_claims_only_what_happened AFTER INSERT ON nottwice.audit
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION nottwice.audit_tells_the_truth();

-- A body is read by a person only behind an audit row of an earlier, committed transaction of the same person's role.
CREATE FUNCTION nottwice.reveal_action(audit_id bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    shown bytea;
BEGIN
    SELECT c.content INTO shown
    FROM nottwice.audit a JOIN nottwice.action_contents c ON c.action_id = a.entity_id
    WHERE a.id = audit_id AND a.entity = 'action' AND a.act = 'reveal' AND a.outcome = 'done'
      AND a.role = replace(current_setting('role'), 'nottwice_', '')
      AND a.transaction <> pg_current_xact_id() AND a.at > now() - interval '15 minutes';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'nothing is shown without an audit row that says so first' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN shown;
END
$$;
REVOKE EXECUTE ON FUNCTION nottwice.reveal_action FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.reveal_action TO nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- What a list or a review page needs of the content, without its body: recipients by role, and the subject.
GRANT SELECT (action_id, recipients, subject) ON nottwice.action_contents TO nottwice_support, nottwice_auditor, nottwice_admin;
