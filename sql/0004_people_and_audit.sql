-- People, their decisions, and the record of them.

CREATE TABLE nottwice.people (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    issuer    text NOT NULL CONSTRAINT an_issuer_vouches CHECK (issuer <> ''),
    subject   text NOT NULL CONSTRAINT a_subject_is_named CHECK (subject <> ''),
    name      text NOT NULL,
    email     text NOT NULL DEFAULT '',
    seen_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT one_person_per_subject UNIQUE (issuer, subject)
);

-- Append-only. A row stands for one thing a person (or a policy, then person_id is NULL) did, tried or was refused.
CREATE TABLE nottwice.audit (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    person_id       bigint REFERENCES nottwice.people,
    role            text NOT NULL,
    act             text NOT NULL CONSTRAINT an_act_is_named CHECK (act <> ''),
    entity          text NOT NULL CONSTRAINT the_entity_is_known CHECK (entity IN ('event', 'action', 'request', 'conflict', 'quarantine', 'audit', 'provider', 'installation')),
    entity_id       bigint NOT NULL,
    entity_version  bigint,              -- the version this act made; NULL when nothing changed
    outcome         text NOT NULL CONSTRAINT the_audit_outcome_is_known CHECK (outcome IN ('done', 'refused', 'failed')),
    why             text NOT NULL DEFAULT '',
    looked_at       text[] NOT NULL DEFAULT '{}',
    known           text NOT NULL DEFAULT '',  -- the verdict on screen at that moment
    state_before    text,
    state_after     text,
    detail          text NOT NULL DEFAULT '',
    form_id         uuid,
    transaction     xid8 NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT one_audit_row_per_version UNIQUE (entity, entity_id, entity_version),
    CONSTRAINT one_done_act_per_form UNIQUE (form_id, outcome),
    CONSTRAINT done_changes_a_version CHECK (outcome = 'done' OR entity_version IS NULL)
);
CREATE INDEX audit_of ON nottwice.audit (entity, entity_id, id);
CREATE TRIGGER an_audit_row_never_changes BEFORE UPDATE OR DELETE ON nottwice.audit
    FOR EACH ROW EXECUTE FUNCTION nottwice.refuse_change();

-- The hash chain over the audit, in commit order, appended by the sealer alone.
CREATE TABLE nottwice.audit_seals (
    sequence       bigint PRIMARY KEY,
    audit_id       bigint NOT NULL UNIQUE REFERENCES nottwice.audit,
    previous_hash  bytea NOT NULL,
    hash           bytea NOT NULL,
    sealed_at      timestamptz NOT NULL DEFAULT now()
);
CREATE TRIGGER a_seal_never_changes BEFORE UPDATE OR DELETE ON nottwice.audit_seals
    FOR EACH ROW EXECUTE FUNCTION nottwice.refuse_change();

-- A second person is asked to agree. Open while decision is NULL and it has not expired.
CREATE TABLE nottwice.requests (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action_id       bigint NOT NULL REFERENCES nottwice.actions,
    action_version  bigint NOT NULL,
    content_digest  bytea NOT NULL,
    last_evidence   bigint NOT NULL DEFAULT 0,  -- the newest that was known of it then (sql/0041)
    wish            text NOT NULL CONSTRAINT the_wish_is_known CHECK (wish IN ('resend_new_key')),
    requested_by    bigint NOT NULL REFERENCES nottwice.people,
    requested_at    timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL,
    why             text NOT NULL,
    looked_at       text[] NOT NULL DEFAULT '{}',
    decided_by      bigint REFERENCES nottwice.people,
    decided_at      timestamptz,
    seen_version    bigint,  -- the action's, as who agreed had it on the page
    decision        text CONSTRAINT the_request_decision_is_known CHECK (decision IN ('agreed', 'disagreed', 'withdrawn', 'void')),
    version         bigint NOT NULL DEFAULT 1,
    CONSTRAINT decided_has_a_time CHECK ((decision IS NULL) = (decided_at IS NULL)),
    CONSTRAINT agreeing_takes_a_second_person CHECK (
        decision IS DISTINCT FROM 'agreed' OR (decided_by IS NOT NULL AND decided_by <> requested_by))
);
CREATE UNIQUE INDEX one_open_request_per_action ON nottwice.requests (action_id) WHERE decision IS NULL;

GRANT SELECT ON nottwice.people, nottwice.audit, nottwice.audit_seals, nottwice.requests
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT SELECT, INSERT ON nottwice.people TO nottwice_console;
GRANT UPDATE (name, email, seen_at) ON nottwice.people TO nottwice_console;
GRANT INSERT (person_id, role, act, entity, entity_id, entity_version, outcome, why, looked_at, known, state_before, state_after, detail, form_id)
    ON nottwice.audit TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT INSERT (action_id, action_version, content_digest, wish, requested_by, expires_at, why, looked_at) ON nottwice.requests TO nottwice_support, nottwice_engineer, nottwice_admin;
GRANT UPDATE (decided_by, decided_at, decision, seen_version, version) ON nottwice.requests TO nottwice_support, nottwice_admin;
GRANT SELECT ON nottwice.audit, nottwice.audit_seals, nottwice.requests, nottwice.people TO nottwice_worker;
GRANT INSERT ON nottwice.audit, nottwice.audit_seals TO nottwice_worker;
GRANT UPDATE (decided_at, decision, version) ON nottwice.requests TO nottwice_worker;
