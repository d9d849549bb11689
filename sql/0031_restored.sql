-- Whether this ledger stands where it stood. A ledger that was restored or copied does not know what went out since, so
-- it sends nothing until a named person releases it.

-- `place`: where it was when it was set up or released last. `folder`: what tells an embedded server's files from a
-- copy of them; NULL until a worker has looked. `releases` counts, so that what a worker noted before one is not compared
-- with what is after it.
ALTER TABLE nottwice.installation
    ADD COLUMN place text,
    ADD COLUMN folder text,
    ADD COLUMN held_since timestamptz,
    ADD COLUMN held_why text NOT NULL DEFAULT '',
    ADD COLUMN releases integer NOT NULL DEFAULT 0,
    ADD CONSTRAINT a_hold_has_a_reason CHECK ((held_since IS NULL) = (held_why = ''));

-- The server's cluster (initdb and pg_upgrade make another), the database (CREATE DATABASE does, from a template too) and
-- the table itself (a dump that is restored does).
CREATE FUNCTION nottwice.place() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    SELECT format('server %s, database %s, table %s', s.system_identifier, d.oid, CAST('nottwice.installation'::regclass AS oid))
    FROM pg_control_system() s, pg_database d WHERE d.datname = current_database()
$$;
UPDATE nottwice.installation SET place = nottwice.place();

CREATE FUNCTION nottwice.may_send() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM nottwice.installation WHERE held_since IS NULL AND place = nottwice.place())
$$;

-- Whether an account takes a send now. The claim and the waiting for work ask the same question; start() asks may_send().
CREATE OR REPLACE FUNCTION nottwice.account_is_open(wanted text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT EXISTS (SELECT FROM nottwice.installation WHERE held_since IS NOT NULL)
    AND NOT EXISTS (
        SELECT FROM nottwice.provider_pauses p
        WHERE p.account = wanted
          AND (p.paused_until > clock_timestamp()
               OR EXISTS (SELECT FROM nottwice.actions a WHERE a.state = 'sending' AND a.account = wanted)))
$$;

GRANT UPDATE (folder, held_since, held_why) ON nottwice.installation TO nottwice_worker;
GRANT SELECT ON SEQUENCE nottwice.action_attempts_id_seq TO nottwice_worker;

-- A person's only way to a release: behind the audit row of this very transaction. Unless nothing can have gone out since
-- (`whole`), each send that waits gets a try 0 of which nothing is known, as long ago as it may have been: so the verdict
-- says of each whether its key still protects it, and leaves the others to a person.
CREATE FUNCTION nottwice.release_sending(audit_id bigint, whole boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    marked bigint := 0;
BEGIN
    IF NOT EXISTS (SELECT FROM nottwice.audit u
                   WHERE u.id = audit_id AND u.entity = 'installation' AND u.act = 'release sending' AND u.outcome = 'done'
                     AND u.person_id IS NOT NULL AND u.transaction = pg_current_xact_id()) THEN
        RAISE EXCEPTION 'nothing is released without an audit row that says who does' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NOT whole THEN
        -- Those that an earlier release marked are in doubt as well: told are all that wait, as before the release.
        SELECT count(*) INTO marked FROM nottwice.actions WHERE state IN ('proposed', 'approved', 'sending');
        INSERT INTO nottwice.action_attempts (action_id, number, token, worker, account, place, started_at, abandoned_at)
        SELECT a.id, 0, gen_random_uuid(), '00000000-0000-0000-0000-000000000000', a.account, a.place, a.created_at, now()
        FROM nottwice.actions a WHERE a.state IN ('proposed', 'approved', 'sending')
        ON CONFLICT (action_id, number) DO NOTHING;
    END IF;
    UPDATE nottwice.installation
    SET place = nottwice.place(), folder = NULL, held_since = NULL, held_why = '', releases = releases + 1;
    RETURN marked;
END
$$;
REVOKE EXECUTE ON FUNCTION nottwice.release_sending FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.release_sending TO nottwice_admin;
