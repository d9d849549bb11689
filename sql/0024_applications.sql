-- Why a handler runs: the third way is to let chosen actions out once more.
ALTER TABLE nottwice.events
    DROP CONSTRAINT the_mode_is_known,
    ADD CONSTRAINT the_mode_is_known CHECK (mode IN ('first', 'recompute', 'repeat'));

-- ── Applications ─────────────────────────────────────────────────────────────────────────────────────

-- What an application's own login needs to propose in its own transactions: GRANT nottwice_application TO shop.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'nottwice_application') THEN
        CREATE ROLE nottwice_application NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;  -- another database of this server is being set up at the same time
END
$$;

GRANT USAGE ON SCHEMA nottwice TO nottwice_application;
GRANT SELECT (id) ON nottwice.installation TO nottwice_application;

-- What stands under a key, and what became of it; no key, no recipient, no content.
GRANT SELECT (id, namespace, key_digest, generation, state, content_digest) ON nottwice.actions TO nottwice_application;

-- Proposed or approved: the CHECKs demand a column that is not here for every other state.
GRANT INSERT (namespace, action_key, key_digest, generation, kind, about, event_id, provider, account, provider_key, reference, policy, cost,
              cost_reason, content_digest, key_window_s, key_margin_s, evidence_s, retry_until, state, due_at)
    ON nottwice.actions TO nottwice_application;
GRANT INSERT ON nottwice.action_contents TO nottwice_application;

-- A further generation sends again what may have gone out. Who may change no action may make none of another.
CREATE FUNCTION nottwice.a_further_generation_is_no_applications() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT has_table_privilege(TG_RELID, 'UPDATE') THEN
        RAISE EXCEPTION 'an application proposes once per key' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER an_application_makes_no_further_generation BEFORE INSERT ON nottwice.actions
    FOR EACH ROW WHEN (NEW.generation > 1) EXECUTE FUNCTION nottwice.a_further_generation_is_no_applications();
