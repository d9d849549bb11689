-- What the front door turned away, by source and reason. A stranger who forges must not cost a transaction a request:
-- each receiver counts in memory, and adds what it has counted once a second, to rows of its own.
CREATE TABLE nottwice.refusals (
    minute  timestamptz NOT NULL,
    source  text NOT NULL,           -- '' for an address that is none of ours: a stranger's word is not kept
    reason  text NOT NULL CONSTRAINT the_refusal_is_known CHECK (reason IN (
            'bad_signature', 'malformed', 'cut_short', 'too_slow', 'too_large', 'coded', 'unknown_source', 'wrong_method',
            'not_http', 'no_room', 'not_stored')),
    writer  uuid NOT NULL,           -- the receiver's start
    n       bigint NOT NULL,
    PRIMARY KEY (minute, source, reason, writer)
);

-- Minutes older than a day, folded.
CREATE TABLE nottwice.refusals_hourly (
    hour    timestamptz NOT NULL,
    source  text NOT NULL,
    reason  text NOT NULL,
    n       bigint NOT NULL,
    PRIMARY KEY (hour, source, reason)
);

GRANT SELECT, INSERT, UPDATE ON nottwice.refusals TO nottwice_receiver;
GRANT SELECT, DELETE ON nottwice.refusals TO nottwice_worker;
GRANT SELECT, INSERT, UPDATE ON nottwice.refusals_hourly TO nottwice_worker;
GRANT SELECT ON nottwice.refusals, nottwice.refusals_hourly
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
