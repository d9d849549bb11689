-- A provider that tells a key with other content from one under way says what should never be: it is told at once.
ALTER TABLE nottwice.action_attempts ADD COLUMN other_content boolean NOT NULL DEFAULT false;
GRANT SELECT (other_content) ON nottwice.action_attempts
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
