-- An audit row of a person says the role in which it was written. Without this, whoever may note that something was refused
-- them could note it, or a thing done, under a role that they do not have.

CREATE FUNCTION nottwice.an_audit_row_names_its_role() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    acting text := replace(current_setting('role'), 'nottwice_', '');
BEGIN
    IF acting NOT IN ('viewer', 'support', 'engineer', 'auditor', 'admin') THEN
        RETURN NEW;  -- a process, or the owner
    END IF;
    IF NEW.role <> acting OR NEW.person_id IS NULL THEN
        RAISE EXCEPTION 'an audit row names the person and the role that wrote it' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF acting = 'viewer' AND NEW.outcome = 'done' THEN
        RAISE EXCEPTION 'a viewer does nothing that could be noted as done' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER an_audit_row_names_its_role BEFORE INSERT ON nottwice.audit
    FOR EACH ROW EXECUTE FUNCTION nottwice.an_audit_row_names_its_role();
