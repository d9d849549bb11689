-- A provider that tells a key with other content from one under way says what should never be: it is told at once.
ALTER TABLE nottwice.action_attempts ADD COLUMN other_content boolean NOT NULL DEFAULT false;
GRANT SELECT (other_content) ON nottwice.action_attempts
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- When a provider's key stops being safe. NULL for a send without keys, or without a first try: `least` alone would pass
-- over the missing window and promise a hundred years.
CREATE FUNCTION nottwice.key_ends(started_at timestamptz, window_s double precision, margin_s double precision)
RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
    SELECT started_at + make_interval(secs => least(window_s - margin_s, 3153600000))
$$;
