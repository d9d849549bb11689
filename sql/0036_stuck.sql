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
