-- The schema, and the database roles. Roles belong to the whole server, so this file tolerates that they exist.
--
-- Three logins, one a kind of process, each with the least it needs; five roles for people. The console logs in
-- as nottwice_console, inherits nothing, and steps into a person's role with SET LOCAL ROLE for one transaction.
-- Passwords are the operator's business (ALTER ROLE ... PASSWORD); the embedded server lets nobody else in.

CREATE SCHEMA IF NOT EXISTS nottwice;  -- the record of applied files is in it already
COMMENT ON SCHEMA nottwice IS 'Not Twice: accepted once, done once, sent once.';

DO $$
DECLARE
    wanted record;
BEGIN
    FOR wanted IN
        SELECT * FROM (VALUES
            ('nottwice_receiver', 'LOGIN INHERIT'),
            ('nottwice_worker',   'LOGIN INHERIT'),
            ('nottwice_console',  'LOGIN NOINHERIT'),
            ('nottwice_viewer',   'NOLOGIN INHERIT'),
            ('nottwice_support',  'NOLOGIN INHERIT'),
            ('nottwice_engineer', 'NOLOGIN INHERIT'),
            ('nottwice_auditor',  'NOLOGIN INHERIT'),
            ('nottwice_admin',    'NOLOGIN INHERIT')
        ) AS r(name, options)
    LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted.name) THEN
                EXECUTE format('CREATE ROLE %I %s', wanted.name, wanted.options);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;  -- another database of this server is being set up at the same time
        END;
    END LOOP;
END
$$;

-- An owner that is no superuser may step into the person roles too (`nottwice up` runs everything under one login).
-- From PostgreSQL 16 on, creating a role does not bring that right along.
DO $$
DECLARE
    person text;
    needed text := CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    FOREACH person IN ARRAY ARRAY['nottwice_viewer', 'nottwice_support', 'nottwice_engineer', 'nottwice_auditor', 'nottwice_admin']
    LOOP
        IF NOT pg_has_role('nottwice_console', person, 'MEMBER') THEN
            EXECUTE format('GRANT %I TO nottwice_console', person);
        END IF;
        IF NOT pg_has_role(current_user, person, needed) THEN
            EXECUTE format('GRANT %I TO %I', person, current_user);
        END IF;
    END LOOP;
END
$$;

-- No statement of ours needs longer; a transaction that idles keeps every table from being cleaned.
-- statement_timeout and the idle limit stay under half a lease (30 s).
DO $$
DECLARE
    login text;
BEGIN
    FOREACH login IN ARRAY ARRAY['nottwice_receiver', 'nottwice_worker', 'nottwice_console']
    LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = login AND rolconfig IS NOT NULL) THEN
            EXECUTE format('ALTER ROLE %I SET lock_timeout = ''5s''', login);
            EXECUTE format('ALTER ROLE %I SET statement_timeout = ''10s''', login);
            EXECUTE format('ALTER ROLE %I SET idle_in_transaction_session_timeout = ''12s''', login);
        END IF;
    END LOOP;
END
$$;

-- A temporary table shadows a real one of the same name, and writes where nobody looks: no login of ours needs one.
-- What else uses this database and needs them is granted it by its owner: GRANT TEMPORARY ON DATABASE … TO ….
DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()); END $$;

GRANT USAGE ON SCHEMA nottwice TO
    nottwice_receiver, nottwice_worker, nottwice_console,
    nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- Handlers keep their own tables in public; the owner of the database creates them.
GRANT USAGE ON SCHEMA public TO nottwice_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO nottwice_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO nottwice_worker;

-- One row: which installation this is. Provider keys are derived from the id, so that two installations
-- that share a provider account never use each other's keys.
CREATE TABLE nottwice.installation (
    only_one    boolean PRIMARY KEY DEFAULT true CONSTRAINT there_is_one_installation CHECK (only_one),
    id          uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at  timestamptz NOT NULL DEFAULT now()
);
INSERT INTO nottwice.installation DEFAULT VALUES;
GRANT SELECT ON nottwice.installation TO nottwice_receiver, nottwice_worker, nottwice_console,
    nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
