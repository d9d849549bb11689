-- Look-ups: an uncertain send asked about at its provider, before a person is asked, and whenever a person asks again.
-- One row a look-up; at most one of an action is open, so no two workers ask about the same send.

CREATE TABLE nottwice.lookups (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action_id    bigint NOT NULL REFERENCES nottwice.actions ON DELETE CASCADE,
    account      text NOT NULL,
    due_at       timestamptz NOT NULL,
    asked_by     bigint REFERENCES nottwice.people,  -- NULL: planned by us
    asked_at     timestamptz,
    token        uuid,
    claimed_by   uuid,
    claimed_at   timestamptz,
    lease_until  timestamptz,
    done_at      timestamptz,
    outcome      text CONSTRAINT the_lookup_outcome_is_known CHECK (outcome IN ('answered', 'unanswered', 'cannot_be_asked')),
    words        text NOT NULL DEFAULT '',
    CONSTRAINT a_question_has_a_time CHECK ((asked_by IS NULL) = (asked_at IS NULL)),
    CONSTRAINT a_lookup_in_hand_is_claimed CHECK (
        (token IS NULL) = (claimed_by IS NULL) AND (token IS NULL) = (claimed_at IS NULL) AND (token IS NULL) = (lease_until IS NULL)),
    CONSTRAINT a_lookup_that_is_done_has_an_outcome CHECK ((done_at IS NULL) = (outcome IS NULL))
);
CREATE UNIQUE INDEX one_open_lookup_per_action ON nottwice.lookups (action_id) WHERE done_at IS NULL;
CREATE INDEX lookups_due ON nottwice.lookups (due_at, id) WHERE done_at IS NULL;
CREATE INDEX lookups_of ON nottwice.lookups (action_id, id);

-- Sends whose next step is a person's, or may make a second copy; `until` is when it is taken. Nobody looks while the
-- same key may be tried: the retry asks the same question, and settles it. What was left alone for a day after that,
-- because no worker was there, is a person's to look up again.
CREATE INDEX actions_in_doubt ON nottwice.actions (coalesce(evidence_until, due_at))
    WHERE (state = 'needs_review' AND verdict IN ('nobody_knows', 'safe_to_try_again') OR state = 'approved' AND verdict = 'nobody_knows')
      AND NOT decided_send AND first_started_at IS NOT NULL;
CREATE VIEW nottwice.sends_in_doubt AS
    SELECT id, account, review_since, coalesce(evidence_until, due_at) AS until
    FROM nottwice.actions
    WHERE (state = 'needs_review' AND verdict IN ('nobody_knows', 'safe_to_try_again') OR state = 'approved' AND verdict = 'nobody_knows')
      AND NOT decided_send AND first_started_at IS NOT NULL
      AND coalesce(evidence_until, due_at) > now() - interval '1 day';
GRANT SELECT ON nottwice.sends_in_doubt TO nottwice_worker;

GRANT SELECT, INSERT, UPDATE, DELETE ON nottwice.lookups TO nottwice_worker;
GRANT SELECT (id, action_id, account, due_at, asked_by, asked_at, claimed_by, claimed_at, lease_until, done_at, outcome, words)
    ON nottwice.lookups TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
-- A hint may name a message that another send is known by; then it is no hint for this one.
GRANT SELECT ON nottwice.messages TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- A person's only way to a look-up: behind the audit row of this very transaction. One that is open already answers both.
CREATE FUNCTION nottwice.ask_lookup(audit_id bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    asked bigint;
BEGIN
    INSERT INTO nottwice.lookups AS open (action_id, account, due_at, asked_by, asked_at)
    SELECT a.id, a.account, now(), u.person_id, now()
    FROM nottwice.audit u JOIN nottwice.actions a ON a.id = u.entity_id
    WHERE u.id = audit_id AND u.entity = 'action' AND u.act = 'look again' AND u.outcome = 'done' AND u.person_id IS NOT NULL
      AND u.transaction = pg_current_xact_id()
    ON CONFLICT (action_id) WHERE done_at IS NULL DO UPDATE SET
        due_at = least(open.due_at, now()),
        asked_by = coalesce(open.asked_by, excluded.asked_by), asked_at = coalesce(open.asked_at, excluded.asked_at)
    RETURNING open.id INTO asked;
    IF asked IS NULL THEN
        RAISE EXCEPTION 'nobody is asked without an audit row that says who asks' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN asked;
END
$$;
REVOKE EXECUTE ON FUNCTION nottwice.ask_lookup FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.ask_lookup TO nottwice_support, nottwice_admin;
