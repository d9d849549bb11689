-- Reprocessing: work events again, or send actions again. A named person asks for a list, the list is frozen as rows, and
-- workers carry it out at a pace, row by row, each with a result.
--
-- preview    the handler runs, and all that it did in the database is undone; what it proposed is noted
-- recompute  the handler runs again and its local changes stand; what it proposes creates no action
-- repeat     chosen actions go out once more, as a new generation of their key: always with a second person

CREATE TABLE nottwice.reprocess_runs (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mode            text NOT NULL CONSTRAINT the_run_mode_is_known CHECK (mode IN ('preview', 'recompute', 'repeat')),
    state           text NOT NULL CONSTRAINT the_run_state_is_known
                    CHECK (state IN ('waiting', 'running', 'done', 'cancelled', 'declined')),
    selection       text NOT NULL,       -- what was asked for, in words
    why             text NOT NULL CONSTRAINT a_run_has_a_reason CHECK (why <> ''),
    requested_by    bigint NOT NULL REFERENCES nottwice.people,
    requested_role  text NOT NULL,
    requested_at    timestamptz NOT NULL DEFAULT now(),
    row_count       integer NOT NULL CONSTRAINT a_run_has_rows CHECK (row_count > 0),  -- without those skipped from the first
    list_digest     bytea NOT NULL,      -- of the frozen list: what an agreement is about
    needs_second    boolean NOT NULL,
    expires_at      timestamptz,         -- a second person is waited for until then
    agreed_by       bigint REFERENCES nottwice.people,
    agreed_at       timestamptz,
    stopped_by      bigint REFERENCES nottwice.people,
    pace_per_s      double precision NOT NULL CONSTRAINT a_run_has_a_pace CHECK (pace_per_s > 0),
    under_way_max   integer NOT NULL CONSTRAINT something_may_be_under_way CHECK (under_way_max > 0),
    next_at         timestamptz,         -- when the next row may begin
    begun_at        timestamptz,
    ended_at        timestamptz,
    version         bigint NOT NULL DEFAULT 1,
    transaction     xid8 NOT NULL DEFAULT pg_current_xact_id(),  -- whose rows are its list

    CONSTRAINT a_repeat_takes_a_second_person CHECK (mode <> 'repeat' OR needs_second),
    CONSTRAINT who_agrees_is_somebody_else CHECK (agreed_by IS NULL OR agreed_by <> requested_by),
    CONSTRAINT an_agreement_has_a_time CHECK ((agreed_by IS NULL) = (agreed_at IS NULL)),
    CONSTRAINT nothing_runs_before_it_is_agreed CHECK (
        NOT needs_second OR state NOT IN ('running', 'done') OR agreed_by IS NOT NULL),
    CONSTRAINT who_waits_waits_for_a_second_person CHECK (state <> 'waiting' OR (needs_second AND expires_at IS NOT NULL)),
    CONSTRAINT a_running_run_has_a_next_time CHECK ((state = 'running') = (next_at IS NOT NULL)),
    CONSTRAINT an_ended_run_has_a_time CHECK ((state IN ('done', 'cancelled', 'declined')) = (ended_at IS NOT NULL))
);
CREATE INDEX reprocess_runs_running ON nottwice.reprocess_runs (next_at, id) WHERE state = 'running';
CREATE INDEX reprocess_runs_waiting ON nottwice.reprocess_runs (id) WHERE state = 'waiting';
-- What a person asked for in the last hour counts towards the number above which a second one is needed.
CREATE INDEX reprocess_runs_of ON nottwice.reprocess_runs (requested_by, requested_at);

-- The frozen list, and what became of each. An event is one run's at a time.
CREATE TABLE nottwice.reprocess_rows (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id           bigint NOT NULL REFERENCES nottwice.reprocess_runs,
    event_id         bigint REFERENCES nottwice.events,    -- to be worked again
    action_id        bigint REFERENCES nottwice.actions,   -- to go out again, as it was stored
    finding_id       bigint,                               -- to go out as a handler proposed it in an earlier run
    seen_version     bigint,                               -- of the event or action, as it was listed
    seen_evidence    bigint NOT NULL DEFAULT 0,            -- the last observation of the action that was known then
    content_digest   bytea,                                -- what goes out: account, recipients and every byte
    state            text NOT NULL CONSTRAINT the_row_state_is_known
                     CHECK (state IN ('waiting', 'working', 'done', 'skipped', 'failed')),
    reason           text NOT NULL DEFAULT '',
    before_ending    text,                                 -- how the event stood, so that it can stand so again
    before_ended_at  timestamptz,
    event_run        integer,                              -- which run of its handler this is
    made_action_id   bigint REFERENCES nottwice.actions,   -- the repeat
    found_same       integer NOT NULL DEFAULT 0,           -- proposals that met their action, with the same content
    found_new        integer NOT NULL DEFAULT 0,
    found_differs    integer NOT NULL DEFAULT 0,
    began_at         timestamptz,
    ended_at         timestamptz,
    CONSTRAINT a_row_is_about_one_thing CHECK (num_nonnulls(event_id, action_id, finding_id) = 1),
    CONSTRAINT a_repeat_names_its_content CHECK (event_id IS NOT NULL OR content_digest IS NOT NULL OR state = 'skipped'),
    CONSTRAINT what_has_begun_has_a_time CHECK (state NOT IN ('working', 'done') OR began_at IS NOT NULL),
    CONSTRAINT what_has_ended_has_a_time CHECK ((state IN ('done', 'skipped', 'failed')) = (ended_at IS NOT NULL)),
    CONSTRAINT what_did_not_happen_says_why CHECK (state NOT IN ('skipped', 'failed') OR reason <> '')
);
CREATE UNIQUE INDEX one_run_at_a_time_per_event ON nottwice.reprocess_rows (event_id) WHERE state = 'working';
CREATE INDEX reprocess_rows_of ON nottwice.reprocess_rows (run_id, id);
CREATE INDEX reprocess_rows_waiting ON nottwice.reprocess_rows (run_id, id) WHERE state = 'waiting';
CREATE INDEX reprocess_rows_working ON nottwice.reprocess_rows (run_id, id) WHERE state = 'working';
CREATE INDEX reprocess_rows_of_event ON nottwice.reprocess_rows (event_id) WHERE event_id IS NOT NULL;
CREATE INDEX reprocess_rows_of_action ON nottwice.reprocess_rows (action_id) WHERE action_id IS NOT NULL;

-- What a handler proposed when it ran again, where that is not what stands: a key that does not exist ("new"), or other
-- content under one that does ("differs"). Nothing was created; a repeat may send exactly this, while it is kept.
CREATE TABLE nottwice.reprocess_findings (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    row_id          bigint NOT NULL REFERENCES nottwice.reprocess_rows,
    namespace       text NOT NULL,
    event_id        bigint NOT NULL REFERENCES nottwice.events,
    found           text NOT NULL CONSTRAINT the_finding_is_known CHECK (found IN ('new', 'differs')),
    kind            text NOT NULL,
    action_id       bigint REFERENCES nottwice.actions,   -- what stands under the key
    action_key      text NOT NULL,
    key_digest      bytea NOT NULL,
    about           text NOT NULL DEFAULT '',
    content         bytea,                                -- as rendered; NULL: no longer kept
    recipients      text[] NOT NULL,
    subject         text NOT NULL DEFAULT '',
    content_digest  bytea NOT NULL,                       -- as nottwice.request_digest() makes it
    found_at        timestamptz NOT NULL DEFAULT now(),
    content_gone    boolean NOT NULL GENERATED ALWAYS AS (content IS NULL) STORED,
    CONSTRAINT what_differs_differs_from_something CHECK ((found = 'differs') = (action_id IS NOT NULL))
);
CREATE INDEX reprocess_findings_of ON nottwice.reprocess_findings (row_id, id);
CREATE INDEX reprocess_findings_with_content ON nottwice.reprocess_findings (namespace, found_at, id) WHERE NOT content_gone;
ALTER TABLE nottwice.reprocess_rows ADD FOREIGN KEY (finding_id) REFERENCES nottwice.reprocess_findings;

-- ── What stands against it ───────────────────────────────────────────────────────────────────────────

-- Asked when a list is made, and once more, with the row locked, before it is carried out. NULL: nothing.

CREATE FUNCTION nottwice.why_not_worked_again(event bigint) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    SELECT CASE
        WHEN e.state = 'failed' THEN 'It is set aside: put it back with `nottwice retry`.'
        WHEN e.state = 'processing' THEN 'It is being worked now.'
        WHEN e.state = 'pending' THEN 'It waits for its turn already.'
        WHEN e.content_digest IS NULL THEN 'Its content is no longer kept ([retention] event_bodies_days).'
        WHEN EXISTS (SELECT FROM nottwice.workers WHERE kind = 'worker')
             AND (e.source, e.type) NOT IN (SELECT k.source, k.type FROM nottwice.kinds_handled('{}', '{}') AS k)
            THEN 'No worker handles this kind.' END
    FROM nottwice.events e WHERE e.id = event
$$;

-- `once_ever` are kinds that go out once ever, where nobody said explicitly that they may go out again.
CREATE FUNCTION nottwice.why_not_sent_again(action bigint, once_ever text[]) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    SELECT CASE
        WHEN a.state IN ('proposed', 'approved', 'sending') THEN 'It is not over: it is ' || a.state || '.'
        WHEN a.state = 'needs_review' THEN 'It waits in Review: decide there whether it goes out again.'
        WHEN a.state = 'declined' THEN 'It was declined: nothing goes out under this key.'
        WHEN a.key_digest IS NULL THEN 'Its key is no longer kept ([retention] action_keys_days).'
        WHEN EXISTS (SELECT FROM nottwice.actions n WHERE n.namespace = a.namespace AND n.key_digest = a.key_digest
                     AND n.generation > a.generation) THEN 'It went out again already: choose the newest of its key.'
        WHEN nottwice.has_moved(a.provider, a.account, a.place) THEN 'Its account is not the one that its provider''s name stands for now.'
        WHEN a.kind = ANY (once_ever) THEN 'Its kind goes out once ever: say so explicitly to repeat it.' END
    FROM nottwice.actions a WHERE a.id = action
$$;

CREATE FUNCTION nottwice.why_finding_not_sent(finding bigint, once_ever text[]) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    SELECT CASE
        WHEN f.content IS NULL THEN 'What was found is no longer kept.'
        WHEN f.kind = ANY (once_ever) THEN 'Its kind goes out once ever: say so explicitly to repeat it.'
        WHEN f.action_id IS NOT NULL THEN nottwice.why_not_sent_again(f.action_id, once_ever)
        WHEN EXISTS (SELECT FROM nottwice.actions n WHERE n.namespace = f.namespace AND n.key_digest = f.key_digest)
            THEN 'An action of this key exists by now.' END
    FROM nottwice.reprocess_findings f WHERE f.id = finding
$$;

-- An application's login may use this schema, and has no business with the state of what is not its own.
REVOKE EXECUTE ON FUNCTION nottwice.why_not_worked_again, nottwice.why_not_sent_again, nottwice.why_finding_not_sent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.why_not_worked_again, nottwice.why_not_sent_again, nottwice.why_finding_not_sent
    TO nottwice_worker, nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

REVOKE EXECUTE ON FUNCTION nottwice.why_not_worked_again, nottwice.why_not_sent_again, nottwice.why_finding_not_sent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.why_not_worked_again, nottwice.why_not_sent_again, nottwice.why_finding_not_sent
    TO nottwice_worker, nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- The last observation of an action: what two people agree to, they agree to as it was known then.
CREATE FUNCTION nottwice.last_evidence(action bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(v.id), 0) FROM nottwice.evidence v WHERE v.action_id = action
$$;

-- ── The list is frozen, and every step of a run has its audit row ────────────────────────────────────

ALTER TABLE nottwice.audit DROP CONSTRAINT the_entity_is_known, ADD CONSTRAINT the_entity_is_known CHECK (entity IN (
    'event', 'action', 'request', 'conflict', 'quarantine', 'audit', 'provider', 'installation', 'reprocess', 'finding'));

CREATE FUNCTION nottwice.a_list_is_frozen() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM new_rows n JOIN nottwice.reprocess_runs r ON r.id = n.run_id
               WHERE r.transaction <> pg_current_xact_id() OR n.state NOT IN ('waiting', 'skipped')) THEN
        RAISE EXCEPTION 'the list of a run is frozen when it is asked for' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER a_run_keeps_its_list AFTER INSERT ON nottwice.reprocess_rows
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION nottwice.a_list_is_frozen();

-- Who may ask for what: whoever may work events again, and for a repeat whoever decides about sends, too.
CREATE FUNCTION nottwice.may_ask_for(mode text, role text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT role IN ('engineer', 'admin') OR (mode = 'repeat' AND role = 'support')
$$;
-- Who may agree: to a repeat, who decides about sends; to the rest, who may ask for it.
CREATE FUNCTION nottwice.may_agree_to(mode text, role text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN mode = 'repeat' THEN role IN ('support', 'admin') ELSE role IN ('engineer', 'admin') END
$$;

-- At commit: a run was asked for by whom its audit row names, in a role that may. It may start only when that is enough.
CREATE FUNCTION nottwice.a_run_is_audited() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM nottwice.noted_now('reprocess', NEW.id, NEW.requested_by) a
                   WHERE a.entity_version = 1 AND a.role = NEW.requested_role AND a.state_after = NEW.state
                     AND nottwice.may_ask_for(NEW.mode, a.role))
       OR NEW.agreed_by IS NOT NULL THEN
        RAISE EXCEPTION 'no run without its audit row: %', NEW.id USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER a_run_is_asked_for_on_record AFTER INSERT ON nottwice.reprocess_runs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION nottwice.a_run_is_audited();

CREATE TRIGGER a_run_changes_with_its_audit_row AFTER UPDATE ON nottwice.reprocess_runs
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION nottwice.change_is_audited('reprocess');

-- Whoever agrees is who the audit names, in a role that may; whoever asked for it is not. Nobody takes an agreement back.
CREATE FUNCTION nottwice.an_agreement_is_audited() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF OLD.agreed_by IS NOT NULL OR OLD.state <> 'waiting' OR OLD.expires_at <= now()
       OR NOT EXISTS (SELECT FROM nottwice.noted_now('reprocess', NEW.id, NEW.agreed_by) a
                      WHERE a.entity_version = NEW.version AND a.state_after = 'running'
                        AND nottwice.may_agree_to(NEW.mode, a.role)) THEN
        RAISE EXCEPTION 'nobody of a second person''s role agreed to run % in time', NEW.id USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER who_agrees_is_on_record BEFORE UPDATE ON nottwice.reprocess_runs
    FOR EACH ROW WHEN (NEW.agreed_by IS DISTINCT FROM OLD.agreed_by) EXECUTE FUNCTION nottwice.an_agreement_is_audited();

-- ── A further generation of a key ────────────────────────────────────────────────────────────────────

-- Whoever inserts it: a generation after the first is what two people agreed to, about the send on the desk (the request
-- of this transaction, nottwice.is_agreed_now of 0041) or in a run of repeats (the row that is being carried out).
CREATE FUNCTION nottwice.two_people_agreed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM nottwice.actions o
        WHERE o.namespace = NEW.namespace AND o.key_digest = NEW.key_digest AND o.generation = NEW.generation - 1
          AND (nottwice.is_agreed_now(o.id)
            OR EXISTS (SELECT FROM nottwice.reprocess_rows w JOIN nottwice.reprocess_runs r ON r.id = w.run_id
                       LEFT JOIN nottwice.reprocess_findings f ON f.id = w.finding_id
                       WHERE o.id IN (w.action_id, f.action_id) AND w.state = 'working' AND w.content_digest = NEW.content_digest
                         AND r.mode = 'repeat' AND r.state = 'running' AND r.agreed_by <> r.requested_by))) THEN
        RAISE EXCEPTION 'a further generation takes the agreement of a second person' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER a_further_generation_takes_two_people BEFORE INSERT ON nottwice.actions
    FOR EACH ROW WHEN (NEW.generation > 1) EXECUTE FUNCTION nottwice.two_people_agreed();

-- ── Who may ────────────────────────────────────────────────────────────────────────────────────────

GRANT SELECT ON nottwice.reprocess_runs, nottwice.reprocess_rows
    TO nottwice_worker, nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT INSERT (mode, state, selection, why, requested_by, requested_role, row_count, list_digest, needs_second, expires_at, pace_per_s,
              under_way_max, next_at, begun_at)
    ON nottwice.reprocess_runs TO nottwice_support, nottwice_engineer, nottwice_admin;
GRANT INSERT (run_id, event_id, action_id, finding_id, seen_version, seen_evidence, content_digest, state, reason, ended_at)
    ON nottwice.reprocess_rows TO nottwice_support, nottwice_engineer, nottwice_admin;
GRANT UPDATE (state, agreed_by, agreed_at, stopped_by, next_at, begun_at, ended_at, version)
    ON nottwice.reprocess_runs TO nottwice_support, nottwice_engineer, nottwice_admin;

GRANT UPDATE (state, next_at, ended_at, version) ON nottwice.reprocess_runs TO nottwice_worker;
GRANT UPDATE (state, reason, before_ending, before_ended_at, event_run, made_action_id, found_same, found_new, found_differs, began_at, ended_at)
    ON nottwice.reprocess_rows TO nottwice_worker;
GRANT SELECT, INSERT, UPDATE (content, recipients, subject, action_key, about) ON nottwice.reprocess_findings TO nottwice_worker;
GRANT SELECT (id, row_id, namespace, event_id, found, kind, action_id, action_key, key_digest, about, content_digest, found_at, content_gone)
    ON nottwice.reprocess_findings TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT SELECT (recipients, subject) ON nottwice.reprocess_findings TO nottwice_support, nottwice_auditor, nottwice_admin;

-- ── What an idle worker is told: the same, and whether a run's next row may begin ────────────────────

DROP FUNCTION nottwice.wait_and_tell(text[], text[], text[], interval, interval);
CREATE FUNCTION nottwice.wait_and_tell(sources text[], types text[], accounts text[], patience interval, pause interval)
RETURNS TABLE (due boolean, seal boolean, hint boolean, look boolean, reprocess boolean) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    due := nottwice.wait_for_work(sources, types, accounts, patience, pause);
    SELECT EXISTS (SELECT FROM (SELECT FROM nottwice.audit_unsealed ORDER BY audit_id LIMIT 1) AS u),
           EXISTS (SELECT FROM (SELECT FROM nottwice.actions WHERE state = 'needs_review' ORDER BY review_since, id LIMIT 1) AS r),
           EXISTS (SELECT FROM (SELECT FROM nottwice.lookups WHERE done_at IS NULL ORDER BY due_at, id LIMIT 1) AS l)
               OR EXISTS (SELECT FROM (SELECT FROM nottwice.sends_in_doubt ORDER BY until LIMIT 1) AS d),
           EXISTS (SELECT FROM (SELECT FROM nottwice.reprocess_runs WHERE state = 'running' AND next_at <= clock_timestamp()
                                ORDER BY next_at, id LIMIT 1) AS p)
    INTO seal, hint, look, reprocess;
    RETURN NEXT;
END
$$;
GRANT EXECUTE ON FUNCTION nottwice.wait_and_tell TO nottwice_worker;
