-- What a provider calls a try whose outcome it does not know itself: the id by which it can be asked about it. Without
-- it an answer such as `{"id": "snd_1", "status": "unknown"}` would be a doubt with no way to settle it by machine.
ALTER TABLE nottwice.action_attempts ADD COLUMN sent_as text
    CONSTRAINT only_a_doubt_is_asked_about CHECK (sent_as IS NULL OR outcome = 'unknown');

GRANT SELECT (sent_as) ON nottwice.action_attempts TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
