-- External actions: what cannot be undone. One row per (namespace, action key, generation); an event is optional.

CREATE TABLE nottwice.actions (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace       text NOT NULL CONSTRAINT an_action_has_a_namespace CHECK (namespace <> ''),
    action_key      text NOT NULL CONSTRAINT an_action_key_is_not_empty CHECK (action_key <> ''),
    key_digest      bytea NOT NULL CONSTRAINT an_action_key_digest_is_sha256 CHECK (octet_length(key_digest) = 32),
    generation      integer NOT NULL DEFAULT 1 CONSTRAINT generations_count_from_one CHECK (generation >= 1),
    kind            text NOT NULL,
    about           text NOT NULL DEFAULT '',
    event_id        bigint REFERENCES nottwice.events,
    provider        text NOT NULL,
    account         text NOT NULL,
    provider_key    text,                -- NULL: this provider knows no keys
    reference       text NOT NULL,       -- ours, put into the provider's metadata where there is some
    policy          text NOT NULL CONSTRAINT the_policy_is_known CHECK (policy IN ('review', 'resend', 'drop')),
    cost            text NOT NULL CONSTRAINT the_cost_is_known CHECK (cost IN ('high', 'medium', 'low')),
    cost_reason     text NOT NULL DEFAULT '',
    content_digest  bytea NOT NULL,
    key_window_s    double precision,    -- NULL: no keys
    key_margin_s    double precision NOT NULL,
    evidence_s      double precision NOT NULL,
    retry_until     timestamptz NOT NULL,

    state           text NOT NULL CONSTRAINT the_action_state_is_known
                    CHECK (state IN ('proposed', 'approved', 'sending', 'needs_review', 'sent', 'refused', 'failed', 'declined', 'closed')),
    verdict         text,                -- the verdict's word when the state was last derived
    due_at          timestamptz,
    decided_send    boolean NOT NULL DEFAULT false,  -- a person decided this send: it waits and can be taken back
    attempts        integer NOT NULL DEFAULT 0,
    failures        integer NOT NULL DEFAULT 0,      -- certainly-not-sent attempts in a row, for the backoff
    first_started_at timestamptz,        -- the provider's key window is counted from here
    claim_token     uuid,
    claimed_by      uuid,
    claimed_at      timestamptz,
    lease_until     timestamptz,
    evidence_until  timestamptz,         -- before it, an uncertain send is "looking for evidence"
    review_since    timestamptz,
    message_id      text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    settled_at      timestamptz,
    version         bigint NOT NULL DEFAULT 1,

    CONSTRAINT one_action_per_key UNIQUE (namespace, key_digest, generation),
    CONSTRAINT sending_means_claimed CHECK (
        (state = 'sending') = (claim_token IS NOT NULL)
        AND (claim_token IS NULL) = (claimed_by IS NULL)
        AND (claim_token IS NULL) = (claimed_at IS NULL)
        AND (claim_token IS NULL) = (lease_until IS NULL)),
    CONSTRAINT approved_means_due CHECK ((state = 'approved') = (due_at IS NOT NULL)),
    CONSTRAINT review_has_a_beginning CHECK ((state = 'needs_review') = (review_since IS NOT NULL)),
    CONSTRAINT final_means_settled CHECK (
        (state IN ('sent', 'refused', 'failed', 'declined', 'closed')) = (settled_at IS NOT NULL)),
    CONSTRAINT a_key_has_a_window CHECK ((provider_key IS NULL) = (key_window_s IS NULL))
);
CREATE INDEX actions_due ON nottwice.actions (account, due_at, id) WHERE state = 'approved';
CREATE INDEX actions_leases ON nottwice.actions (lease_until) WHERE state = 'sending';
CREATE INDEX actions_review ON nottwice.actions (review_since, id) WHERE state = 'needs_review';
CREATE INDEX actions_proposed ON nottwice.actions (created_at, id) WHERE state = 'proposed';
CREATE INDEX actions_of_event ON nottwice.actions (event_id) WHERE event_id IS NOT NULL;
-- Counts by final state: one entry of some bytes a row, read without the table.
CREATE INDEX actions_final ON nottwice.actions (state) WHERE settled_at IS NOT NULL;
CREATE INDEX actions_settled ON nottwice.actions (settled_at) WHERE settled_at IS NOT NULL;

-- The rendered request: stored before the first call, sent byte for byte by every attempt.
CREATE TABLE nottwice.action_contents (
    action_id   bigint PRIMARY KEY REFERENCES nottwice.actions,
    content     bytea NOT NULL,
    recipients  text[] NOT NULL,
    subject     text NOT NULL DEFAULT ''
);

CREATE FUNCTION nottwice.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was stored in % is never changed', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER a_rendered_request_never_changes BEFORE UPDATE ON nottwice.action_contents
    FOR EACH ROW EXECUTE FUNCTION nottwice.refuse_change();

-- One row per try whose call was allowed to start, written by start() before the socket opens. The answer is
-- written once, by whoever has the attempt's token, whoever holds the action by then.
CREATE TABLE nottwice.action_attempts (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action_id     bigint NOT NULL REFERENCES nottwice.actions,
    number        integer NOT NULL,
    token         uuid NOT NULL,
    worker        uuid NOT NULL,
    account       text NOT NULL,
    started_at    timestamptz NOT NULL DEFAULT now(),
    abandoned_at  timestamptz,           -- its lease ran out without an answer
    answered_at   timestamptz,
    outcome       text CONSTRAINT the_outcome_is_known
                  CHECK (outcome IN ('accepted', 'refused', 'not_sent', 'in_flight', 'unknown')),
    reason        text NOT NULL DEFAULT '',
    code          text NOT NULL DEFAULT '',
    message_id    text,
    CONSTRAINT one_attempt_per_claim UNIQUE (action_id, token),
    CONSTRAINT attempts_are_numbered UNIQUE (action_id, number),
    CONSTRAINT an_answer_has_an_outcome CHECK ((answered_at IS NULL) = (outcome IS NULL)),
    CONSTRAINT accepted_names_its_message CHECK ((outcome = 'accepted') = (message_id IS NOT NULL) OR outcome IS NULL)
);
CREATE INDEX action_attempts_token ON nottwice.action_attempts (token);
-- The last answers of an account: three unknown ones in a row pause a provider without keys.
CREATE INDEX action_attempts_answers ON nottwice.action_attempts (account, answered_at DESC) WHERE answered_at IS NOT NULL;

-- What was observed about an action. Only proof settles; everything else is a hint for a person.
CREATE TABLE nottwice.evidence (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action_id    bigint NOT NULL REFERENCES nottwice.actions,
    source       text NOT NULL,
    found        text NOT NULL,
    points_to    text NOT NULL CONSTRAINT evidence_points_somewhere CHECK (points_to IN ('sent', 'not_sent', 'neither')),
    proof        boolean NOT NULL,
    message_id   text,
    event_id     bigint REFERENCES nottwice.events,
    observed_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT a_hint_of_nothing_is_no_proof CHECK (NOT (proof AND points_to = 'neither'))
);
CREATE INDEX evidence_of ON nottwice.evidence (action_id);

-- Where a webhook about a message and the record of its sending meet: both lock this row before either looks.
CREATE TABLE nottwice.messages (
    account     text NOT NULL,
    message_id  text NOT NULL,
    action_id   bigint REFERENCES nottwice.actions,
    seen_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account, message_id)
);

-- A provider account that is held: a rate limit, a refused connection, a key it no longer takes. The row stays after
-- its time until a call succeeds: meanwhile the account is tried with one send at a time, and a further pause is longer.
CREATE TABLE nottwice.provider_pauses (
    account       text PRIMARY KEY,
    paused_until  timestamptz NOT NULL,
    reason        text NOT NULL,
    since         timestamptz NOT NULL DEFAULT now()
);

-- Whether an account takes a send now. The claim and the waiting for work ask the same question.
CREATE FUNCTION nottwice.account_is_open(wanted text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT EXISTS (
        SELECT FROM nottwice.provider_pauses p
        WHERE p.account = wanted
          AND (p.paused_until > clock_timestamp()
               OR EXISTS (SELECT FROM nottwice.actions a WHERE a.state = 'sending' AND a.account = wanted)))
$$;

-- A part behind its length, as ledger/digests.py digest_of() writes it.
CREATE FUNCTION nottwice.part(value bytea) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT int8send(octet_length(value)::bigint) || value
$$;

-- What an approval names and start() compares, as ledger/actions/proposals.py request_digest() computes it; a test compares the two.
CREATE FUNCTION nottwice.request_digest(provider text, account text, recipients text[], content bytea) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT sha256(nottwice.part(convert_to(provider, 'UTF8')) || nottwice.part(convert_to(account, 'UTF8'))
                  || coalesce(string_agg(nottwice.part(convert_to(r.recipient, 'UTF8')), ''::bytea ORDER BY r.n), ''::bytea)
                  || nottwice.part(content))
    FROM unnest(recipients) WITH ORDINALITY AS r(recipient, n)
$$;

GRANT SELECT, INSERT, UPDATE ON nottwice.actions, nottwice.action_attempts, nottwice.messages, nottwice.provider_pauses TO nottwice_worker;
GRANT SELECT, INSERT ON nottwice.action_contents, nottwice.evidence TO nottwice_worker;
GRANT DELETE ON nottwice.provider_pauses TO nottwice_worker;

GRANT SELECT (id, namespace, action_key, key_digest, generation, kind, about, event_id, provider, account, reference, policy, cost, cost_reason,
              content_digest, key_window_s, key_margin_s, evidence_s, retry_until, state, verdict, due_at, decided_send, attempts, failures, first_started_at,
              claimed_by, claimed_at, lease_until, evidence_until, review_since, message_id, created_at, settled_at, version)
    ON nottwice.actions TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT SELECT (id, action_id, number, worker, account, started_at, abandoned_at, answered_at, outcome, reason, code, message_id)
    ON nottwice.action_attempts TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT SELECT ON nottwice.evidence, nottwice.provider_pauses TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT UPDATE (state, verdict, due_at, decided_send, retry_until, failures, evidence_until, review_since, message_id, settled_at, version)
    ON nottwice.actions TO nottwice_support, nottwice_admin;
GRANT INSERT (action_id, source, found, points_to, proof, message_id, event_id) ON nottwice.evidence TO nottwice_support, nottwice_admin;
