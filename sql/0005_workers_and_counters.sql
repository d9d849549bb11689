-- Processes that are alive, the sweep's memory, and the counters.

CREATE TABLE nottwice.workers (
    id          uuid PRIMARY KEY,        -- random per start of a process: a name is only a label
    name        text NOT NULL,
    kind        text NOT NULL DEFAULT 'worker' CONSTRAINT the_process_kind_is_known CHECK (kind IN ('worker', 'receiver', 'console')),
    host        text NOT NULL DEFAULT '',
    pid         integer NOT NULL DEFAULT 0,
    handles     text[] NOT NULL DEFAULT '{}',  -- 'source type' pairs this worker has handlers for
    started_at  timestamptz NOT NULL DEFAULT now(),
    seen_at     timestamptz NOT NULL DEFAULT now(),
    stopped_at  timestamptz
);
CREATE INDEX workers_alive ON nottwice.workers (seen_at) WHERE stopped_at IS NULL;

-- When each maintenance duty last ran, and on which start of the server: after an outage, living workers are
-- given one lease to renew before anything is rescued.
CREATE TABLE nottwice.maintenance (
    duty            text PRIMARY KEY,
    last_at         timestamptz NOT NULL DEFAULT now(),
    server_started  timestamptz NOT NULL DEFAULT pg_postmaster_start_time(),
    resume_at       timestamptz NOT NULL DEFAULT now()
);

-- One row per minute, namespace, metric and writer (a connection), so that writers never meet.
CREATE TABLE nottwice.counters (
    minute     timestamptz NOT NULL,
    namespace  text NOT NULL,
    metric     text NOT NULL CONSTRAINT the_metric_is_known CHECK (metric IN (
               'accepted', 'duplicate', 'conflict', 'quarantined', 'completed', 'retried', 'set_aside', 'rescued', 'lease_lost',
               'sent', 'refused', 'not_sent', 'in_flight', 'unknown', 'late_answer')),
    writer     uuid NOT NULL,
    n          bigint NOT NULL,
    PRIMARY KEY (minute, namespace, metric, writer)
);

-- Minutes older than a day, folded: hours for charts, and 'since installation' is the sum of both tables.
CREATE TABLE nottwice.counters_hourly (
    hour       timestamptz NOT NULL,
    namespace  text NOT NULL,
    metric     text NOT NULL,
    n          bigint NOT NULL,
    PRIMARY KEY (hour, namespace, metric)
);

GRANT SELECT, INSERT, UPDATE ON nottwice.counters TO nottwice_receiver, nottwice_worker;
GRANT DELETE ON nottwice.counters TO nottwice_worker;
GRANT SELECT, INSERT, UPDATE ON nottwice.counters_hourly TO nottwice_worker;
GRANT SELECT, INSERT, UPDATE ON nottwice.workers TO nottwice_receiver, nottwice_worker;
GRANT DELETE ON nottwice.workers TO nottwice_worker;
GRANT SELECT, INSERT, UPDATE ON nottwice.maintenance TO nottwice_worker;
GRANT SELECT ON nottwice.workers, nottwice.maintenance, nottwice.counters, nottwice.counters_hourly
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
