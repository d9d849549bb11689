-- Intake: one durable row per logical event, its bytes beside it, and what else arrived about it.

CREATE TABLE nottwice.events (
    -- Half of each page is left free: claim and completion enter the number again, on the page where it stands.
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY WITH (fillfactor = 50),
    namespace          text NOT NULL CONSTRAINT a_namespace_is_named CHECK (namespace <> '' AND octet_length(namespace) <= 200),
    source             text NOT NULL CONSTRAINT a_source_is_named CHECK (source <> ''),
    type               text NOT NULL,
    -- The readable key. Never indexed: a stranger chooses its length. The digest is the identity.
    event_key          text NOT NULL CONSTRAINT an_event_key_is_not_empty CHECK (event_key <> ''),
    key_digest         bytea NOT NULL CONSTRAINT a_key_digest_is_sha256 CHECK (octet_length(key_digest) = 32),
    key_rule           smallint NOT NULL DEFAULT 1,
    occurrence_digest  bytea CONSTRAINT an_occurrence_digest_is_sha256 CHECK (octet_length(occurrence_digest) = 32),
    content_digest     bytea,            -- NULL once purged: then another content cannot be compared
    delivery_id        text NOT NULL DEFAULT '',
    occurred_at        timestamptz,      -- the source's word, never used for leases
    accepted_at        timestamptz NOT NULL DEFAULT now(),

    state              text NOT NULL DEFAULT 'pending'
                       CONSTRAINT the_event_state_is_known CHECK (state IN ('pending', 'processing', 'completed', 'failed')),
    ending             text CONSTRAINT the_ending_is_known CHECK (ending IN ('done', 'ignored', 'unhandled')),
    mode               text NOT NULL DEFAULT 'first' CONSTRAINT the_mode_is_known CHECK (mode IN ('first', 'recompute')),
    run                integer NOT NULL DEFAULT 1,
    due_at             timestamptz DEFAULT now(),
    attempts           integer NOT NULL DEFAULT 0,
    attempts_max       integer NOT NULL DEFAULT 5,
    alone              boolean NOT NULL DEFAULT false,  -- was rescued: runs with nothing beside it
    claim_token        uuid,
    claimed_by         uuid,
    claimed_at         timestamptz,
    lease_until        timestamptz,
    last_error         text,
    ended_at           timestamptz,
    version            bigint NOT NULL DEFAULT 1,

    CONSTRAINT processing_means_claimed CHECK (
        (state = 'processing') = (claim_token IS NOT NULL)
        AND (claim_token IS NULL) = (claimed_by IS NULL)
        AND (claim_token IS NULL) = (claimed_at IS NULL)
        AND (claim_token IS NULL) = (lease_until IS NULL)),
    CONSTRAINT pending_means_due CHECK ((state = 'pending') = (due_at IS NOT NULL)),
    CONSTRAINT an_end_has_a_time CHECK ((state IN ('completed', 'failed')) = (ended_at IS NOT NULL)),
    CONSTRAINT completed_has_an_ending CHECK ((state = 'completed') = (ending IS NOT NULL)),
    CONSTRAINT attempts_stay_within_their_limit CHECK (attempts BETWEEN 0 AND attempts_max),
    -- Else the claim that counts one more would fail, and with it the claim of its neighbours.
    CONSTRAINT pending_has_an_attempt_left CHECK (state <> 'pending' OR attempts < attempts_max),
    CONSTRAINT one_event_per_key UNIQUE (namespace, key_digest)
);
CREATE UNIQUE INDEX one_event_per_occurrence ON nottwice.events (namespace, occurrence_digest)
    WHERE occurrence_digest IS NOT NULL;
-- The claim's index: a flood of one namespace, or a type nobody handles, stands in nobody's way.
CREATE INDEX events_pending ON nottwice.events (namespace, source, type, due_at, id) WHERE state = 'pending';
-- What was rescued waits for a process that does nothing else; few rows, and a backlog of others is not walked for them.
CREATE INDEX events_alone ON nottwice.events (namespace, source, type, due_at, id) WHERE state = 'pending' AND alone;
CREATE INDEX events_leases ON nottwice.events (lease_until) WHERE state = 'processing';
CREATE INDEX events_failed ON nottwice.events (id) WHERE state = 'failed';

-- Apart from the event, so that claim and completion rewrite a short row.
CREATE TABLE nottwice.event_contents (
    event_id      bigint PRIMARY KEY REFERENCES nottwice.events,
    content_type  text NOT NULL DEFAULT '',
    body          bytea NOT NULL
);
ALTER TABLE nottwice.event_contents ALTER COLUMN body SET STORAGE EXTERNAL;

-- Further deliveries of an event we have: the event's row is not touched. One row per delivery id; when an event
-- has very many, the rest are counted under ''.
CREATE TABLE nottwice.duplicates (
    event_id       bigint NOT NULL REFERENCES nottwice.events,
    delivery_id    text NOT NULL,
    deliveries     bigint NOT NULL,
    first_seen_at  timestamptz NOT NULL DEFAULT now(),
    last_seen_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, delivery_id)
);

-- The same key with other content: the first stays, the other is kept once per distinct content.
CREATE TABLE nottwice.conflicts (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id        bigint NOT NULL REFERENCES nottwice.events,
    content_digest  bytea NOT NULL,
    delivery_id     text NOT NULL DEFAULT '',
    content_type    text NOT NULL DEFAULT '',
    body            bytea NOT NULL,
    deliveries      bigint NOT NULL DEFAULT 1,
    first_seen_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at    timestamptz NOT NULL DEFAULT now(),
    acknowledged_at timestamptz,
    state           text GENERATED ALWAYS AS (CASE WHEN acknowledged_at IS NULL THEN 'new' ELSE 'seen' END) STORED,
    version         bigint NOT NULL DEFAULT 1,
    CONSTRAINT one_conflict_per_content UNIQUE (event_id, content_digest)
);

-- Authentic, but without a usable key or shape. Kept with its bytes, never in its neighbours' way.
CREATE TABLE nottwice.quarantine (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace      text NOT NULL,
    source         text NOT NULL,
    body_digest    bytea NOT NULL,
    element        integer NOT NULL,
    reason         text NOT NULL,
    body           bytea NOT NULL,
    deliveries     bigint NOT NULL DEFAULT 1,
    first_seen_at  timestamptz NOT NULL DEFAULT now(),
    last_seen_at   timestamptz NOT NULL DEFAULT now(),
    settled_at     timestamptz,
    version        bigint NOT NULL DEFAULT 1,
    CONSTRAINT quarantined_once UNIQUE (source, body_digest, element)
);
CREATE INDEX quarantine_open ON nottwice.quarantine (id) WHERE settled_at IS NULL;

-- A claim that ended in anything but completion. The happy path writes no row here.
CREATE TABLE nottwice.event_attempts (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id      bigint NOT NULL REFERENCES nottwice.events,
    attempt       integer NOT NULL,
    worker        uuid NOT NULL,
    token_digest  bytea NOT NULL,
    claimed_at    timestamptz NOT NULL,
    ended_at      timestamptz NOT NULL DEFAULT now(),
    ending        text NOT NULL CONSTRAINT the_claim_ending_is_known
                  CHECK (ending IN ('retry', 'unavailable', 'set_aside', 'handed_back', 'rescued')),
    error         text
);
CREATE INDEX event_attempts_of ON nottwice.event_attempts (event_id);

GRANT SELECT, INSERT ON nottwice.events, nottwice.event_contents, nottwice.duplicates, nottwice.conflicts, nottwice.quarantine TO nottwice_receiver;
GRANT UPDATE (deliveries, last_seen_at) ON nottwice.duplicates, nottwice.conflicts, nottwice.quarantine TO nottwice_receiver;

GRANT SELECT, UPDATE ON nottwice.events TO nottwice_worker;
GRANT SELECT ON nottwice.event_contents, nottwice.duplicates, nottwice.conflicts, nottwice.quarantine TO nottwice_worker;
GRANT SELECT, INSERT ON nottwice.event_attempts TO nottwice_worker;

-- People see the story of an event, never its claim token; bodies only through a reveal.
GRANT SELECT (id, namespace, source, type, event_key, key_rule, delivery_id, occurred_at, accepted_at, state, ending, mode, run, due_at,
              attempts, attempts_max, alone, claimed_by, claimed_at, lease_until, last_error, ended_at, version, key_digest, content_digest)
    ON nottwice.events TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT SELECT ON nottwice.duplicates, nottwice.event_attempts
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT SELECT (id, event_id, content_digest, delivery_id, content_type, deliveries, first_seen_at, last_seen_at, acknowledged_at, state, version)
    ON nottwice.conflicts TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT SELECT (id, namespace, source, body_digest, element, reason, deliveries, first_seen_at, last_seen_at, settled_at, version)
    ON nottwice.quarantine TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT UPDATE (state, due_at, attempts_max, alone, ended_at, ending, last_error, claim_token, claimed_by, claimed_at, lease_until, version)
    ON nottwice.events TO nottwice_engineer, nottwice_admin;
