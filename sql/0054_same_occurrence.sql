-- Two events that tell of one occurrence, by a person's word: where a sender gave it two ids. The rows of both, their work
-- and their sends stay as they are. Each word leads from the later event to an earlier one; together they make a group.
CREATE TABLE nottwice.same_occurrence (
    event_id bigint PRIMARY KEY REFERENCES nottwice.events,
    first_id bigint NOT NULL REFERENCES nottwice.events,
    is_same  boolean NOT NULL DEFAULT true,  -- false: somebody took it back
    said_by  bigint NOT NULL REFERENCES nottwice.people,
    CONSTRAINT the_first_came_first CHECK (first_id < event_id)
);
CREATE INDEX same_occurrence_of ON nottwice.same_occurrence (first_id);
GRANT SELECT ON nottwice.same_occurrence TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT INSERT, UPDATE (first_id, is_same, said_by) ON nottwice.same_occurrence TO nottwice_support, nottwice_engineer, nottwice_admin;

CREATE FUNCTION nottwice.same_occurrence_is_audited() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM nottwice.noted_now('event', NEW.event_id, NEW.said_by) a
                   WHERE a.act = CASE WHEN NEW.is_same THEN 'linked to another event' ELSE 'link taken back' END) THEN
        RAISE EXCEPTION 'no change without its audit row: same_occurrence %', NEW.event_id USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF (SELECT count(DISTINCT e.namespace) FROM nottwice.events e WHERE e.id IN (NEW.event_id, NEW.first_id)) > 1 THEN
        RAISE EXCEPTION 'two namespaces: same_occurrence %', NEW.event_id USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER a_link_has_its_audit_row BEFORE INSERT OR UPDATE ON nottwice.same_occurrence
    FOR EACH ROW EXECUTE FUNCTION nottwice.same_occurrence_is_audited();
