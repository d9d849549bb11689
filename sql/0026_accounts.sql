-- Accounts at providers: what holds them, which account a provider's name stands for, and whether this ledger still
-- stands where it stood when it sent last.

-- `by_settings`: a key, a right or an address of ours is to blame, so settings that are read anew are tried at once.
-- `told`: one process has said so, for all. `probes`: sends that tried the account since.
ALTER TABLE nottwice.provider_pauses
    ADD COLUMN by_settings boolean NOT NULL DEFAULT false,
    ADD COLUMN told boolean NOT NULL DEFAULT false,
    ADD COLUMN probes integer NOT NULL DEFAULT 0;

-- What a provider's name stands for now, as the last worker that read its configuration wrote it down. An action
-- keeps the account it was written for; where the name stands for another one since, nothing goes out by itself.
CREATE TABLE nottwice.providers (
    name           text PRIMARY KEY,
    kind           text NOT NULL,
    account        text NOT NULL,
    place          text NOT NULL DEFAULT '',  -- its kind, and the address in one spelling; '': not told
    key_window_s   double precision,  -- NULL: no keys
    key_margin_s   double precision NOT NULL,
    read_at        timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE ON nottwice.providers TO nottwice_worker;
GRANT SELECT ON nottwice.providers TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- Where the provider was when an action was written, and where each try went: a key protects at one place alone.
ALTER TABLE nottwice.actions ADD COLUMN place text NOT NULL DEFAULT '';
ALTER TABLE nottwice.action_attempts ADD COLUMN place text NOT NULL DEFAULT '';
GRANT INSERT (place) ON nottwice.actions TO nottwice_application;
GRANT SELECT (place) ON nottwice.actions, nottwice.action_attempts
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- Another account, or one of another kind: what was written for it is not for the one of now. Another address of the
-- same kind concerns those sends alone that may have gone out at the old one: their tries say so.
CREATE FUNCTION nottwice.has_moved(provider text, account text, place text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM nottwice.providers p WHERE p.name = provider
                   AND (p.account <> has_moved.account
                        OR has_moved.place <> '' AND p.kind <> split_part(has_moved.place, ' ', 1)))
$$;

CREATE FUNCTION nottwice.place_of(provider text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT p.place FROM nottwice.providers p WHERE p.name = provider), '')
$$;

-- The accounts of sends that wait, found by hopping through their index: its cost grows with the number of accounts.
CREATE FUNCTION nottwice.accounts_that_wait() RETURNS SETOF text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE hop AS (
        (SELECT account FROM nottwice.actions WHERE state = 'approved' ORDER BY account LIMIT 1)
        UNION ALL
        SELECT (SELECT a.account FROM nottwice.actions a
                WHERE a.state = 'approved' AND a.account > hop.account ORDER BY a.account LIMIT 1)
        FROM hop WHERE hop.account IS NOT NULL)
    SELECT account FROM hop WHERE account IS NOT NULL
$$;
GRANT EXECUTE ON FUNCTION nottwice.accounts_that_wait
    TO nottwice_worker, nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- A new key is for the account that the provider's name stands for now. Whoever asked for it and whoever agrees must
-- mean the same one.
ALTER TABLE nottwice.requests ADD COLUMN account text, ADD COLUMN place text NOT NULL DEFAULT '';
GRANT INSERT (account, place) ON nottwice.requests TO nottwice_support, nottwice_engineer, nottwice_admin;
