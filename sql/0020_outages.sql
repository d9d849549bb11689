-- What an outage leaves behind: messages that were never delivered, and endpoints that the provider switched off.

-- One row a catch-up that was begun, with how far it is: stopped at any moment, the same command goes on from there.
-- Its events are ordinary events; nothing here decides whether one is new.
CREATE TABLE nottwice.catch_ups (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source       text NOT NULL,
    namespace    text NOT NULL,
    read_from    text NOT NULL,          -- the inbox, or the file
    run_digest   bytea NOT NULL,         -- what makes two commands the same one
    position     jsonb,                  -- how far it is: of use to the program that wrote it alone
    counts       jsonb NOT NULL DEFAULT '{}',
    begun_on     text NOT NULL DEFAULT '',  -- the machine
    started_at   timestamptz NOT NULL DEFAULT now(),
    saved_at     timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz
);
CREATE UNIQUE INDEX one_open_catch_up ON nottwice.catch_ups (run_digest) WHERE ended_at IS NULL;

GRANT SELECT, INSERT, UPDATE ON nottwice.catch_ups TO nottwice_receiver;
GRANT SELECT ON nottwice.catch_ups TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- When each provider account was last asked about its webhook endpoints. One worker asks, whoever moves `asked_at`.
CREATE TABLE nottwice.endpoint_polls (
    account           text PRIMARY KEY,
    label             text NOT NULL,              -- the provider's name as it writes it itself
    asked_at          timestamptz NOT NULL DEFAULT now(),
    answered_at       timestamptz,
    unanswered_since  timestamptz,                -- the first question since then that got no answer
    words             text NOT NULL DEFAULT ''    -- why it got none
);

-- What the provider last said of each endpoint that leads to us.
CREATE TABLE nottwice.endpoints (
    account      text NOT NULL REFERENCES nottwice.endpoint_polls ON DELETE CASCADE,
    endpoint_id  text NOT NULL,
    url          text NOT NULL,
    state        text NOT NULL CONSTRAINT the_endpoint_state_is_known CHECK (state IN ('enabled', 'disabled', 'gone')),
    since        timestamptz NOT NULL DEFAULT now(),  -- when we first saw it so
    PRIMARY KEY (account, endpoint_id)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON nottwice.endpoint_polls, nottwice.endpoints TO nottwice_worker;
GRANT SELECT ON nottwice.endpoint_polls, nottwice.endpoints
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
