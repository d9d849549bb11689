-- Stuck work: what a person finds there, at a price that does not grow with the past, and what a person does about it.

-- In the order in which they were set aside, or given up; an entry is written only then.
CREATE INDEX events_set_aside ON nottwice.events (ended_at, id) WHERE state = 'failed';
CREATE INDEX actions_given_up ON nottwice.actions (settled_at, id) WHERE state = 'failed';
-- What was tried and waits to be tried again. The last column is compared inside the index: in a storm most entries are young.
CREATE INDEX events_tried ON nottwice.events (due_at, id, accepted_at) WHERE state = 'pending' AND last_error IS NOT NULL;
CREATE INDEX events_in_line ON nottwice.events (due_at, id) WHERE waits_behind <> 0;

-- ── A person ends a claim ────────────────────────────────────────────────────────────────────────────

GRANT UPDATE (waits_behind) ON nottwice.events TO nottwice_engineer, nottwice_admin;

ALTER TABLE nottwice.event_attempts DROP CONSTRAINT the_claim_ending_is_known, ADD CONSTRAINT the_claim_ending_is_known
    CHECK (ending IN ('retry', 'unavailable', 'set_aside', 'handed_back', 'rescued', 'taken_back', 'put_aside'));

-- The claim that a person is about to end, kept with the digest of its token, which no person may read. Only behind the
-- audit row of this very transaction; nothing for an event that nobody holds.
CREATE FUNCTION nottwice.note_claim_ended_by_hand(event bigint, ending text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    held nottwice.events%ROWTYPE;
BEGIN
    SELECT * INTO held FROM nottwice.events e WHERE e.id = event;
    IF NOT EXISTS (SELECT FROM nottwice.audit a WHERE a.entity = 'event' AND a.entity_id = event AND a.outcome = 'done'
                   AND a.entity_version = held.version + 1 AND a.transaction = pg_current_xact_id()) THEN
        RAISE EXCEPTION 'no claim is ended by hand without its audit row: event %', event USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF held.state = 'processing' THEN
        INSERT INTO nottwice.event_attempts (event_id, attempt, worker, token_digest, claimed_at, ending)
        VALUES (held.id, held.attempts, held.claimed_by, sha256(uuid_send(held.claim_token)), held.claimed_at,
                CASE ending WHEN 'put_aside' THEN 'put_aside' ELSE 'taken_back' END);
    END IF;
END
$$;
REVOKE EXECUTE ON FUNCTION nottwice.note_claim_ended_by_hand FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.note_claim_ended_by_hand TO nottwice_engineer, nottwice_admin;

-- ── Many within an hour take two people ──────────────────────────────────────────────────────────────

-- One person asks for a list, frozen as it was seen; another one agrees and carries it out.
CREATE TABLE nottwice.stuck_requests (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    act           text NOT NULL CONSTRAINT the_stuck_act_is_known CHECK (act IN ('try again', 'set aside', 'hand back')),
    event_ids     bigint[] NOT NULL CONSTRAINT a_request_names_events CHECK (cardinality(event_ids) > 0),
    versions      bigint[] NOT NULL,
    why           text NOT NULL CONSTRAINT a_stuck_request_has_a_reason CHECK (why <> ''),
    requested_by  bigint NOT NULL REFERENCES nottwice.people,
    requested_at  timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL,
    decided_by    bigint REFERENCES nottwice.people,
    decided_at    timestamptz,
    decision      text CONSTRAINT the_stuck_decision_is_known CHECK (decision IN ('agreed', 'disagreed', 'withdrawn')),
    version       bigint NOT NULL DEFAULT 1,
    CONSTRAINT each_event_has_its_version CHECK (cardinality(versions) = cardinality(event_ids)),
    CONSTRAINT a_decided_request_has_a_time CHECK ((decision IS NULL) = (decided_at IS NULL)),
    CONSTRAINT who_agrees_to_many_is_somebody_else CHECK (
        decision IS DISTINCT FROM 'agreed' OR (decided_by IS NOT NULL AND decided_by <> requested_by))
);
CREATE INDEX stuck_requests_open ON nottwice.stuck_requests (id) WHERE decision IS NULL;
GRANT SELECT ON nottwice.stuck_requests TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT INSERT (act, event_ids, versions, why, requested_by, expires_at), UPDATE (decided_by, decided_at, decision, version)
    ON nottwice.stuck_requests TO nottwice_engineer, nottwice_admin;

-- At commit: who asked, and who decided, are those whom the audit names in this transaction.
CREATE FUNCTION nottwice.a_stuck_request_is_audited() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF nottwice.a_person_acts() AND NOT EXISTS (
        SELECT FROM nottwice.noted_now('request', NEW.id, coalesce(NEW.decided_by, NEW.requested_by)) a
        WHERE a.entity_version = NEW.version AND a.role IN ('engineer', 'admin')) THEN
        RAISE EXCEPTION 'no request without its audit row: %', NEW.id USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER a_stuck_request_has_its_audit_row AFTER INSERT OR UPDATE ON nottwice.stuck_requests
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION nottwice.a_stuck_request_is_audited();

-- Once, in time, and at the time of this very transaction: an answer is never taken back, and never reaches ahead.
CREATE FUNCTION nottwice.a_stuck_answer_is_in_time() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF nottwice.a_person_acts() AND (
        OLD.decision IS NOT NULL OR OLD.expires_at <= now() OR NEW.decision IS NULL
        OR NEW.decided_by IS NULL OR NEW.decided_at <> now() OR NEW.version <> OLD.version + 1) THEN
        RAISE EXCEPTION 'a request is answered once, and in time: %', NEW.id USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER a_stuck_request_is_answered_once BEFORE UPDATE ON nottwice.stuck_requests
    FOR EACH ROW EXECUTE FUNCTION nottwice.a_stuck_answer_is_in_time();

-- Whether an act on an event, as it was when it was listed, belongs to a list that this person agreed to within the hour.
CREATE FUNCTION nottwice.was_agreed(act text, event bigint, seen_version bigint, person bigint, detail text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    SELECT EXISTS (SELECT FROM nottwice.stuck_requests r, unnest(r.event_ids, r.versions) AS l(event_id, version)
                   WHERE detail = 'request ' || r.id AND r.decision = 'agreed' AND r.decided_by = person AND r.act = was_agreed.act
                     AND l.event_id = event AND l.version = seen_version
                     AND r.decided_at > now() - interval '1 hour' AND r.decided_at <= now())
$$;
REVOKE EXECUTE ON FUNCTION nottwice.was_agreed FROM PUBLIC;

-- How many events a person acted on alone within the hour. The time first: the index of a person's acts goes by it.
CREATE FUNCTION nottwice.acted_alone(person bigint) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    SELECT count(*) FROM nottwice.audit a
    WHERE a.person_id = person AND a.at > now() - interval '1 hour' AND a.entity = 'event' AND a.outcome = 'done'
      AND a.act IN ('try again', 'set aside', 'hand back') AND a.detail NOT LIKE 'request %'
$$;
REVOKE EXECUTE ON FUNCTION nottwice.acted_alone FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.acted_alone
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- Held against another act of the same person at the same moment. What a person does with an event has one of three names,
-- so that none goes uncounted; what a worker notes of a run, in the name of who asked, was counted when it was asked for.
CREATE FUNCTION nottwice.many_events_take_two_people() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF NEW.act NOT IN ('try again', 'set aside', 'hand back') THEN
        IF nottwice.a_person_acts() THEN
            RAISE EXCEPTION 'no person changes an event by such an act: event %', NEW.entity_id USING ERRCODE = 'insufficient_privilege';
        END IF;
        RETURN NULL;
    END IF;
    IF NEW.detail LIKE 'request %' THEN
        IF NOT nottwice.was_agreed(NEW.act, NEW.entity_id, NEW.entity_version - 1, NEW.person_id, NEW.detail) THEN
            RAISE EXCEPTION 'nobody agreed to this: event %, %', NEW.entity_id, NEW.detail USING ERRCODE = 'insufficient_privilege';
        END IF;
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('stuck ' || NEW.person_id, 36));
    IF nottwice.acted_alone(NEW.person_id) > nottwice.second_person_above() THEN
        RAISE EXCEPTION 'more events within the hour take a second person' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER many_events_take_a_second_person AFTER INSERT ON nottwice.audit FOR EACH ROW
    WHEN (NEW.entity = 'event' AND NEW.outcome = 'done' AND NEW.person_id IS NOT NULL AND NEW.entity_version IS NOT NULL)
    EXECUTE FUNCTION nottwice.many_events_take_two_people();
