-- Many uncertain sends with one cause, decided by one word: a named person decides about a list, which is frozen as rows
-- with what was seen of each; every send that is decided has its own audit row, every other one says why it was left alone.
-- Never a new key: that is a repeat (0028), chosen one by one.

CREATE TABLE nottwice.together (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    decision        text NOT NULL CONSTRAINT the_decision_is_no_new_key CHECK (decision IN ('was_sent', 'resend_same_key', 'do_not_send')),
    cause           text NOT NULL,       -- what they share, in our words
    state           text NOT NULL CONSTRAINT the_list_state_is_known CHECK (state IN ('waiting', 'done', 'declined', 'withdrawn')),
    row_count       integer NOT NULL CONSTRAINT a_list_has_rows CHECK (row_count > 0),
    why             text NOT NULL CONSTRAINT a_list_has_a_reason CHECK (why <> ''),
    looked_at       text[] NOT NULL DEFAULT '{}',
    requested_by    bigint NOT NULL REFERENCES nottwice.people,
    requested_at    timestamptz NOT NULL DEFAULT now(),
    needs_second    boolean NOT NULL,    -- above the number that one person decides within an hour
    expires_at      timestamptz,         -- a second person is waited for until then
    decided_by      bigint REFERENCES nottwice.people,
    decided_at      timestamptz,
    version         bigint NOT NULL DEFAULT 1,
    transaction     xid8 NOT NULL DEFAULT pg_current_xact_id(),  -- whose rows are its list

    CONSTRAINT a_waiting_list_expires CHECK (needs_second = (expires_at IS NOT NULL)),
    CONSTRAINT only_what_needs_a_second_person_waits CHECK (needs_second OR state = 'done'),
    CONSTRAINT an_answered_list_has_a_time CHECK (
        (decided_by IS NULL) = (decided_at IS NULL) AND (decided_by IS NOT NULL) = (needs_second AND state <> 'waiting')),
    CONSTRAINT who_agrees_to_a_list_is_somebody_else CHECK (decided_by <> requested_by OR state = 'withdrawn')
);
CREATE INDEX together_waiting ON nottwice.together (id) WHERE state = 'waiting';
-- What a person decided in the last hour counts towards the number above which a second one is needed.
CREATE INDEX together_of ON nottwice.together (requested_by, requested_at);

CREATE TABLE nottwice.together_rows (
    together_id     bigint NOT NULL REFERENCES nottwice.together,
    action_id       bigint NOT NULL REFERENCES nottwice.actions,
    seen_version    bigint NOT NULL,
    content_digest  bytea NOT NULL,
    result          text NOT NULL CONSTRAINT the_result_is_known CHECK (result IN ('waiting', 'done', 'left')),
    reason          text NOT NULL DEFAULT '',
    CONSTRAINT what_is_left_alone_says_why CHECK (result <> 'left' OR reason <> ''),
    PRIMARY KEY (together_id, action_id)
);
CREATE INDEX together_rows_waiting ON nottwice.together_rows (action_id) WHERE result = 'waiting';

ALTER TABLE nottwice.audit DROP CONSTRAINT the_entity_is_known, ADD CONSTRAINT the_entity_is_known CHECK (entity IN (
    'event', 'action', 'request', 'conflict', 'quarantine', 'audit', 'provider', 'installation', 'reprocess', 'finding', 'together'));

-- ── No list without its record ───────────────────────────────────────────────────────────────────────

CREATE FUNCTION nottwice.a_shared_list_is_frozen() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM new_rows n JOIN nottwice.together t ON t.id = n.together_id
               WHERE t.transaction <> pg_current_xact_id() OR (t.state = 'waiting') <> (n.result = 'waiting')) THEN
        RAISE EXCEPTION 'what is decided together is frozen when it is asked for' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER a_shared_decision_keeps_its_list AFTER INSERT ON nottwice.together_rows
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION nottwice.a_shared_list_is_frozen();

CREATE FUNCTION nottwice.a_shared_list_is_audited() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM nottwice.noted_now('together', NEW.id, NEW.requested_by) a
                   WHERE a.entity_version = 1 AND a.role IN ('support', 'admin') AND a.state_after = NEW.state) THEN
        RAISE EXCEPTION 'no shared decision without its audit row: %', NEW.id USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER a_shared_list_is_asked_for_on_record AFTER INSERT ON nottwice.together
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION nottwice.a_shared_list_is_audited();

CREATE TRIGGER a_shared_list_changes_with_its_audit_row AFTER UPDATE ON nottwice.together
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION nottwice.change_is_audited('together');

-- Whoever answers is who the audit names, in a role that may, in time; and once.
CREATE FUNCTION nottwice.an_answer_to_a_list_is_audited() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF OLD.state <> 'waiting' OR OLD.expires_at <= now()
       OR NOT EXISTS (SELECT FROM nottwice.noted_now('together', NEW.id, NEW.decided_by) a
                      WHERE a.entity_version = NEW.version AND a.state_after = NEW.state AND a.role IN ('support', 'admin')) THEN
        RAISE EXCEPTION 'nobody of a second person''s role answered list % in time', NEW.id USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER who_answers_a_list_is_on_record BEFORE UPDATE ON nottwice.together
    FOR EACH ROW EXECUTE FUNCTION nottwice.an_answer_to_a_list_is_audited();

-- ── What shares a cause ──────────────────────────────────────────────────────────────────────────────

CREATE FUNCTION nottwice.quarter_of_an_hour(at timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT date_bin('15 minutes', at, '2000-01-01 00:00:00+00')
$$;

-- Uncertain sends by provider, kind and when they were begun; without those about which a second person is asked.
CREATE VIEW nottwice.waiting_by_cause AS
    SELECT a.id, a.provider, a.kind, a.first_started_at, nottwice.quarter_of_an_hour(a.first_started_at) AS slot
    FROM nottwice.actions a
    WHERE a.state = 'needs_review' AND a.first_started_at IS NOT NULL
      AND NOT EXISTS (SELECT FROM nottwice.requests q WHERE q.action_id = a.id AND q.decision IS NULL AND q.expires_at > now())
      AND NOT EXISTS (SELECT FROM nottwice.together_rows w JOIN nottwice.together t ON t.id = w.together_id
                      WHERE w.action_id = a.id AND w.result = 'waiting' AND t.state = 'waiting' AND t.expires_at > now());
GRANT SELECT ON nottwice.waiting_by_cause TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- ── Who may ──────────────────────────────────────────────────────────────────────────────────────────

GRANT SELECT ON nottwice.together, nottwice.together_rows
    TO nottwice_worker, nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT INSERT (decision, cause, state, row_count, why, looked_at, requested_by, needs_second, expires_at)
    ON nottwice.together TO nottwice_support, nottwice_admin;
GRANT UPDATE (state, decided_by, decided_at, version) ON nottwice.together TO nottwice_support, nottwice_admin;
GRANT INSERT (together_id, action_id, seen_version, content_digest, result, reason)
    ON nottwice.together_rows TO nottwice_support, nottwice_admin;
GRANT UPDATE (result, reason) ON nottwice.together_rows TO nottwice_support, nottwice_admin;

-- ── A decision that was contradicted later ───────────────────────────────────────────────────────────

-- Set by whoever judges an action when proof comes in that says otherwise than the person who ended it; a new decision
-- empties it. In an index of its own: it is of no great number, and looked for on every visit.
ALTER TABLE nottwice.actions ADD COLUMN contradicted_at timestamptz;
CREATE INDEX actions_contradicted ON nottwice.actions (contradicted_at, id) WHERE contradicted_at IS NOT NULL;
GRANT SELECT (contradicted_at), UPDATE (contradicted_at) ON nottwice.actions TO nottwice_support, nottwice_admin;
GRANT SELECT (contradicted_at) ON nottwice.actions TO nottwice_viewer, nottwice_engineer, nottwice_auditor;

-- ── What is in quarantine is examined again ──────────────────────────────────────────────────────────

-- A person asks, after the configuration was put right; a receiver reads the kept bytes as it would read them now.
CREATE TABLE nottwice.examinations (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    quarantine_id  bigint NOT NULL REFERENCES nottwice.quarantine ON DELETE CASCADE,
    asked_by       bigint NOT NULL REFERENCES nottwice.people,
    asked_at       timestamptz NOT NULL DEFAULT now(),
    done_at        timestamptz,
    result         text CONSTRAINT the_examination_result_is_known CHECK (result IN ('event', 'known', 'conflict', 'no_event')),
    reason         text NOT NULL DEFAULT '',
    event_id       bigint REFERENCES nottwice.events,
    CONSTRAINT what_was_examined_has_a_result CHECK ((done_at IS NULL) = (result IS NULL)),
    CONSTRAINT what_is_no_event_says_why CHECK (result <> 'no_event' OR reason <> '')
);
CREATE UNIQUE INDEX one_open_examination ON nottwice.examinations (quarantine_id) WHERE done_at IS NULL;
CREATE INDEX examinations_of ON nottwice.examinations (quarantine_id, id);

CREATE FUNCTION nottwice.an_examination_is_audited() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM nottwice.noted_now('quarantine', NEW.quarantine_id, NEW.asked_by) a WHERE a.act = 'examine again') THEN
        RAISE EXCEPTION 'nothing is examined again without its audit row: %', NEW.quarantine_id USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER an_examination_is_asked_for_on_record AFTER INSERT ON nottwice.examinations
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION nottwice.an_examination_is_audited();

GRANT SELECT ON nottwice.examinations
    TO nottwice_receiver, nottwice_worker, nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT INSERT (quarantine_id, asked_by) ON nottwice.examinations TO nottwice_support, nottwice_engineer, nottwice_admin;
GRANT UPDATE (done_at, result, reason, event_id) ON nottwice.examinations TO nottwice_receiver;
GRANT UPDATE (settled_at) ON nottwice.quarantine TO nottwice_receiver;
