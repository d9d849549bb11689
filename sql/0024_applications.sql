-- Why a handler runs: the third way is to let chosen actions out once more.
ALTER TABLE nottwice.events
    DROP CONSTRAINT the_mode_is_known,
    ADD CONSTRAINT the_mode_is_known CHECK (mode IN ('first', 'recompute', 'repeat'));

-- ── What was sent tells so ───────────────────────────────────────────────────────────────────────────

-- What a user does after a send (an archive, a figure, another system) is work of its own: an event, worked under a lease,
-- tried again, set aside. It is stored by the very statement that makes an action sent, whoever that was: a worker's answer,
-- a look-up, a notice, a person. So there is one for each send, and whatever fails after it cannot undo the send.
ALTER TABLE nottwice.actions ADD COLUMN tells boolean NOT NULL DEFAULT false;
GRANT SELECT (tells) ON nottwice.actions TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

CREATE FUNCTION nottwice.tell_that_it_was_sent() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    what text := json_build_object('id', NEW.id, 'kind', NEW.kind, 'key', NEW.action_key, 'generation', NEW.generation,
                                   'about', NEW.about, 'account', NEW.account, 'message_id', NEW.message_id, 'event_id', NEW.event_id);
    body bytea;
    made bigint;
BEGIN
    -- A content that is no longer kept, or too long for an event, is null.
    SELECT convert_to(format('{"action":%s,"recipients":%s,"content":%s}', what, coalesce(to_json(c.recipients)::text, '[]'),
               CASE WHEN octet_length(c.content) <= 1000000 THEN convert_from(c.content, 'UTF8') ELSE 'null' END), 'UTF8')
    INTO body FROM (VALUES (1)) AS one LEFT JOIN nottwice.action_contents c ON c.action_id = NEW.id;

    INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, occurred_at)
    VALUES (NEW.namespace, 'nottwice', 'action.sent', format('action:%s:sent', NEW.id),
            sha256(nottwice.part('nottwice') || nottwice.part('action.sent') || nottwice.part(int8send(NEW.id))), sha256(body), now())
    ON CONFLICT DO NOTHING
    RETURNING id INTO made;
    IF made IS NOT NULL THEN
        INSERT INTO nottwice.event_contents (event_id, content_type, body) VALUES (made, 'application/json', body);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER what_was_sent_tells_so AFTER UPDATE OF state ON nottwice.actions
    FOR EACH ROW WHEN (NEW.tells AND NEW.state = 'sent' AND OLD.state <> 'sent')
    EXECUTE FUNCTION nottwice.tell_that_it_was_sent();

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
GRANT SELECT (id, namespace, key_digest, generation, kind, state, content_digest) ON nottwice.actions TO nottwice_application;

-- Proposed or approved: the CHECKs demand a column that is not here for every other state.
GRANT INSERT (namespace, action_key, key_digest, generation, kind, about, event_id, provider, account, provider_key, reference, policy, cost,
              cost_reason, content_digest, key_window_s, key_margin_s, evidence_s, retry_until, state, due_at, tells)
    ON nottwice.actions TO nottwice_application;
GRANT INSERT ON nottwice.action_contents TO nottwice_application;

-- Whether there is such an event, and no more of it: the foreign key would tell the same, and end the transaction.
CREATE FUNCTION nottwice.has_event(wanted bigint) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = nottwice, pg_temp AS 'SELECT EXISTS (SELECT FROM nottwice.events WHERE id = wanted)';
REVOKE EXECUTE ON FUNCTION nottwice.has_event FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.has_event TO nottwice_application, nottwice_worker;

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
