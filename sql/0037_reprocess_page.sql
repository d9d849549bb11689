-- What the page of runs needs, and what the database holds of a run by itself.

-- ── A run that is done is not counted again ──────────────────────────────────────────────────────────

-- Its rows by their results, written when the last one has its own. Others are counted when they are looked at: few are open.
ALTER TABLE nottwice.reprocess_runs
    ADD COLUMN rows_done    integer,
    ADD COLUMN rows_skipped integer,
    ADD COLUMN rows_failed  integer,
    ADD CONSTRAINT results_are_counted_together CHECK (num_nulls(rows_done, rows_skipped, rows_failed) IN (0, 3));
CREATE INDEX reprocess_runs_of_list ON nottwice.reprocess_runs (list_digest, id);
CREATE INDEX reprocess_rows_by_state ON nottwice.reprocess_rows (run_id, state);
GRANT UPDATE (rows_done, rows_skipped, rows_failed) ON nottwice.reprocess_runs TO nottwice_worker;

-- ── Many rows take a second person ───────────────────────────────────────────────────────────────────

-- Above how many rows of one person within an hour: as the workers' configuration says, so that nobody who asks says it.
CREATE TABLE nottwice.reprocess_limit (
    the_one              boolean PRIMARY KEY DEFAULT true CONSTRAINT there_is_one_limit CHECK (the_one),
    second_person_above  integer NOT NULL CONSTRAINT a_limit_is_no_less_than_none CHECK (second_person_above >= 0)
);
GRANT SELECT, INSERT (second_person_above), UPDATE (second_person_above) ON nottwice.reprocess_limit TO nottwice_worker;
GRANT SELECT ON nottwice.reprocess_limit
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
-- Before any worker has said a number: the default of the configuration.
CREATE FUNCTION nottwice.second_person_above() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT l.second_person_above FROM nottwice.reprocess_limit l), 100)
$$;

-- With each row: a run has no more of them than it says, whenever its transaction lets constraints be checked.
CREATE FUNCTION nottwice.a_run_has_the_rows_it_says() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    more bigint;
BEGIN
    SELECT r.id INTO more FROM nottwice.reprocess_runs r
    WHERE r.id IN (SELECT n.run_id FROM new_rows n)
      AND (SELECT count(*) FROM nottwice.reprocess_rows w WHERE w.run_id = r.id AND w.state = 'waiting') > r.row_count
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'run % has more rows than it says', more USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER a_run_takes_no_more_rows_than_it_says AFTER INSERT ON nottwice.reprocess_rows
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION nottwice.a_run_has_the_rows_it_says();

-- At commit: a run is small enough where it names no second person.
-- Held against a second request of the same person at the same moment, as the ledger does it.
CREATE FUNCTION nottwice.many_rows_take_two_people() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    asked bigint;
BEGIN
    IF NEW.needs_second THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('reprocess ' || NEW.requested_by, 28));
    SELECT sum(r.row_count) INTO asked FROM nottwice.reprocess_runs r
    WHERE r.requested_by = NEW.requested_by AND r.requested_at > now() - interval '1 hour' AND NOT r.needs_second;
    IF asked > nottwice.second_person_above() THEN
        RAISE EXCEPTION 'run % takes a second person: % rows within the hour', NEW.id, asked USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER many_rows_take_a_second_person AFTER INSERT ON nottwice.reprocess_runs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION nottwice.many_rows_take_two_people();
