-- What is kept no longer than it is needed. A row that is over its time is stripped in place: it stays with its number,
-- states and times, so that all that refers to it holds. A key that is given up is NULL, and NULLs are never equal: the
-- unique constraints bind what has a key, and the same key makes a new row.

-- What is over its time while something that belongs to it is open: from when its time is counted instead, so that it is
-- looked at again after a day, or after its whole time if that is shorter.
CREATE FUNCTION nottwice.not_yet(kept_s double precision) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT now() - make_interval(secs => kept_s) + make_interval(secs => least(kept_s, 86400))
$$;

-- ── Events ───────────────────────────────────────────────────────────────────────────────────────────

-- Its sends were not settled when its content (its key) was over its time: from when that is counted instead.
ALTER TABLE nottwice.events
    ADD COLUMN content_needed_at timestamptz,
    ADD COLUMN key_needed_at timestamptz,
    ALTER COLUMN key_digest DROP NOT NULL,
    -- What was completed once may be worked out again after its key is gone.
    ADD CONSTRAINT only_what_was_finished_gives_up_its_key CHECK (key_digest IS NOT NULL OR state = 'completed' OR run > 1);
-- Each in the order in which it is over its time, and only what still has it: nothing walks through the rest.
CREATE INDEX events_with_content ON nottwice.events (namespace, greatest(ended_at, content_needed_at), id)
    WHERE state = 'completed' AND content_digest IS NOT NULL;
CREATE INDEX events_with_key ON nottwice.events (namespace, greatest(accepted_at, key_needed_at), id)
    WHERE state = 'completed' AND key_digest IS NOT NULL;

-- NULL: no longer kept.
ALTER TABLE nottwice.conflicts ALTER COLUMN body DROP NOT NULL;
ALTER TABLE nottwice.quarantine
    ALTER COLUMN body DROP NOT NULL,
    ALTER COLUMN body_digest DROP NOT NULL;
CREATE INDEX quarantine_with_content ON nottwice.quarantine (namespace, last_seen_at, id) WHERE body_digest IS NOT NULL;

-- ── Actions ──────────────────────────────────────────────────────────────────────────────────────────

ALTER TABLE nottwice.actions
    ADD COLUMN content_gone boolean NOT NULL DEFAULT false,
    ADD COLUMN key_needed_at timestamptz,  -- as of events; for a kind that goes out once ever, in the year 9999
    ALTER COLUMN key_digest DROP NOT NULL,
    DROP CONSTRAINT an_action_key_is_not_empty,
    ADD CONSTRAINT an_action_key_is_not_empty CHECK (action_key <> '' OR key_digest IS NULL),
    ADD CONSTRAINT only_what_is_settled_gives_up_its_key CHECK (key_digest IS NOT NULL OR settled_at IS NOT NULL);
CREATE INDEX actions_with_content ON nottwice.actions (namespace, settled_at, id) WHERE settled_at IS NOT NULL AND NOT content_gone;
CREATE INDEX actions_with_key ON nottwice.actions (namespace, greatest(settled_at, key_needed_at), id)
    WHERE settled_at IS NOT NULL AND key_digest IS NOT NULL;

ALTER TABLE nottwice.notices
    ADD COLUMN namespace text,
    ADD COLUMN names_gone boolean NOT NULL DEFAULT false,
    ADD COLUMN needed_at timestamptz;
UPDATE nottwice.notices n SET namespace = e.namespace FROM nottwice.events e WHERE e.id = n.event_id;
ALTER TABLE nottwice.notices ALTER COLUMN namespace SET NOT NULL;
DROP INDEX nottwice.notices_whole;
CREATE INDEX notices_whole ON nottwice.notices (namespace, greatest(noted_at, needed_at), id) WHERE NOT names_gone;

-- ── Who removes it ───────────────────────────────────────────────────────────────────────────────────

-- Workers, one at a time (the row `prune` of nottwice.maintenance), and whoever runs `nottwice prune` as the owner.
GRANT DELETE ON nottwice.event_contents, nottwice.action_contents, nottwice.notices, nottwice.messages TO nottwice_worker;
GRANT INSERT, UPDATE, DELETE ON nottwice.duplicates TO nottwice_worker;
GRANT UPDATE (body) ON nottwice.conflicts TO nottwice_worker;
GRANT UPDATE (body, body_digest, settled_at, version) ON nottwice.quarantine TO nottwice_worker;
GRANT UPDATE (error) ON nottwice.event_attempts TO nottwice_worker;
GRANT UPDATE (found, message_id) ON nottwice.evidence TO nottwice_worker;
GRANT UPDATE (recipient, detail, names_gone, needed_at) ON nottwice.notices TO nottwice_worker;
GRANT DELETE ON nottwice.counters_hourly, nottwice.refusals_hourly TO nottwice_worker;

-- Whoever monitors asks how late the oldest of each is.
GRANT SELECT (content_needed_at, key_needed_at) ON nottwice.events
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT SELECT (content_gone, key_needed_at) ON nottwice.actions
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
GRANT SELECT (id, namespace, noted_at, needed_at, names_gone) ON nottwice.notices
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
