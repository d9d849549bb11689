-- The record as people read and check it, at a price that does not grow with it.

-- What waits for its seal: filled with the audit row, emptied with the seal, so that neither the sealer nor a look at
-- what it left undone reads the history. No reference to the audit: an entry that went missing before its seal must show.
CREATE TABLE nottwice.audit_unsealed (
    audit_id  bigint PRIMARY KEY,
    since     timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION nottwice.wait_for_a_seal() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    INSERT INTO nottwice.audit_unsealed (audit_id) SELECT id FROM new_rows;
    RETURN NULL;
END
$$;
CREATE TRIGGER an_audit_row_waits_for_its_seal AFTER INSERT ON nottwice.audit
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION nottwice.wait_for_a_seal();

-- The trigger's lock keeps writers out until this file is committed, so none is missed.
INSERT INTO nottwice.audit_unsealed (audit_id, since)
SELECT id, at FROM nottwice.audit a WHERE NOT EXISTS (SELECT FROM nottwice.audit_seals s WHERE s.audit_id = a.id);

-- One row a check of the whole record: what the page shows, and what a later check holds the chain against.
CREATE TABLE nottwice.audit_checks (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    checked_at    timestamptz NOT NULL DEFAULT now(),
    person_id     bigint REFERENCES nottwice.people,  -- NULL: nobody by name, as the database's owner
    entries       bigint NOT NULL,                    -- how many fit, from the first one on
    hash          bytea NOT NULL,                     -- the seal of the last of them
    broken_entry  bigint,                             -- the first that does not fit
    broken        text,
    backdated     bigint,                             -- the first that is dated long before the one sealed before it
    unsealed      bigint NOT NULL,                    -- how many waited for a seal for over a minute
    CONSTRAINT what_is_broken_is_explained CHECK ((broken_entry IS NULL) = (broken IS NULL))
);
-- Everybody who reads the record reads what its last check found: a person's is an entry of its own transaction.
CREATE FUNCTION nottwice.a_check_is_audited() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF nottwice.a_person_acts() AND NOT EXISTS (
        SELECT FROM nottwice.noted_now('audit', 0, NEW.person_id) a WHERE a.act = 'checked the record' AND a.role IN ('auditor', 'admin')) THEN
        RAISE EXCEPTION 'no check of the record without its audit row' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER a_check_is_on_record BEFORE INSERT ON nottwice.audit_checks
    FOR EACH ROW EXECUTE FUNCTION nottwice.a_check_is_audited();
CREATE TRIGGER a_check_never_changes BEFORE UPDATE OR DELETE ON nottwice.audit_checks
    FOR EACH ROW EXECUTE FUNCTION nottwice.refuse_change();

CREATE TRIGGER audit_rows_are_never_emptied BEFORE TRUNCATE ON nottwice.audit
    FOR EACH STATEMENT EXECUTE FUNCTION nottwice.refuse_change();
CREATE TRIGGER seals_are_never_emptied BEFORE TRUNCATE ON nottwice.audit_seals
    FOR EACH STATEMENT EXECUTE FUNCTION nottwice.refuse_change();
CREATE TRIGGER checks_are_never_emptied BEFORE TRUNCATE ON nottwice.audit_checks
    FOR EACH STATEMENT EXECUTE FUNCTION nottwice.refuse_change();

-- What the page filters by, each in the order in which it shows: newest first. Subjects have audit_of.
CREATE INDEX audit_by_time ON nottwice.audit (at, id);
CREATE INDEX audit_by_person ON nottwice.audit (person_id, at, id) WHERE person_id IS NOT NULL;
CREATE INDEX audit_by_policy ON nottwice.audit (at, id) WHERE person_id IS NULL;
CREATE INDEX audit_by_act ON nottwice.audit (act, at, id);
CREATE INDEX audit_not_done ON nottwice.audit (outcome, at, id) WHERE outcome <> 'done';

GRANT SELECT, DELETE ON nottwice.audit_unsealed TO nottwice_worker;
GRANT SELECT ON nottwice.audit_unsealed, nottwice.audit_checks
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin, nottwice_worker;
GRANT INSERT (person_id, entries, hash, broken_entry, broken, backdated, unsealed) ON nottwice.audit_checks TO nottwice_auditor, nottwice_admin;
