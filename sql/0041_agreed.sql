-- What the database holds by itself of a second person's word about one send: whoever has a session of their own gets
-- round neither the record nor the other person.

-- Only those who decide about sends ask, and only processes and proofs add to what is known of one.
REVOKE INSERT ON nottwice.requests FROM nottwice_engineer;
REVOKE INSERT ON nottwice.evidence FROM nottwice_support, nottwice_admin;

-- Whether this very transaction notes that this person did this to that send.
CREATE FUNCTION nottwice.is_noted(send bigint, person bigint, words text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    SELECT EXISTS (SELECT FROM nottwice.noted_now('action', send, person) a WHERE a.act = words AND a.role IN ('support', 'admin'))
$$;

-- A request is about a send as it is now, in the name of whom the audit names, for a month at most: it holds the desk. What was
-- known of the send by then is written down here, for the second person, who is shown what came since.
CREATE FUNCTION nottwice.a_request_is_audited() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF nottwice.a_person_acts() AND (
        btrim(NEW.why) = '' OR NEW.expires_at <= now() OR NEW.expires_at > now() + interval '30 days'
        OR NOT EXISTS (SELECT FROM nottwice.actions a WHERE a.id = NEW.action_id AND a.state = 'needs_review'
                       AND a.version = NEW.action_version AND a.content_digest = NEW.content_digest)
        OR NOT nottwice.is_noted(NEW.action_id, NEW.requested_by, 'asked a second person: send again with a new key')) THEN
        RAISE EXCEPTION 'no request without its audit row: action %', NEW.action_id USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.last_evidence := nottwice.last_evidence(NEW.action_id);
    RETURN NEW;
END
$$;
CREATE TRIGGER a_request_is_asked_on_record BEFORE INSERT ON nottwice.requests
    FOR EACH ROW EXECUTE FUNCTION nottwice.a_request_is_audited();

-- Answered once, in time, by whom the audit names, and never in the transaction that asked. What ran out is put away.
CREATE FUNCTION nottwice.an_answer_is_audited() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    words text := CASE NEW.decision WHEN 'agreed' THEN 'agreed: send again with a new key'
                                    WHEN 'disagreed' THEN 'disagreed: a new key' WHEN 'withdrawn' THEN 'withdrawn: a new key' END;
    fits  boolean := OLD.decision IS NULL AND NEW.decided_at = now() AND NEW.version = OLD.version + 1;
BEGIN
    IF OLD.expires_at <= now() THEN
        fits := fits AND NEW.decision = 'withdrawn' AND NEW.decided_by IS NULL;
    ELSE
        fits := fits AND nottwice.is_noted(NEW.action_id, NEW.decided_by, words) AND OLD.requested_at <> now()
            AND (NEW.decision <> 'withdrawn' OR NEW.decided_by = OLD.requested_by);
    END IF;
    IF nottwice.a_person_acts() AND fits IS NOT TRUE THEN
        RAISE EXCEPTION 'no answer without its audit row: request %', NEW.id USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER a_request_is_answered_on_record BEFORE UPDATE ON nottwice.requests
    FOR EACH ROW EXECUTE FUNCTION nottwice.an_answer_is_audited();

-- Whether two people agreed in this transaction to a new key for a send that stood, until they did, as the second one saw it,
-- with the content that it was asked about.
CREATE FUNCTION nottwice.is_agreed_now(send bigint) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    SELECT EXISTS (SELECT FROM nottwice.requests r JOIN nottwice.actions a ON a.id = r.action_id
                   JOIN nottwice.audit u ON u.entity = 'action' AND u.entity_id = a.id AND u.entity_version = a.version
                   WHERE r.action_id = send AND r.decision = 'agreed' AND r.decided_at = now() AND r.decided_by <> r.requested_by
                     AND a.state = 'closed' AND r.seen_version >= r.action_version AND a.version = r.seen_version + 1
                     AND a.content_digest = r.content_digest
                     AND u.act = 'agreed: send again with a new key' AND u.outcome = 'done' AND u.person_id = r.decided_by
                     AND u.transaction = pg_current_xact_id())
$$;
REVOKE EXECUTE ON FUNCTION nottwice.is_noted, nottwice.is_agreed_now FROM PUBLIC;

-- What an agreement does: the next generation of a send, for the account that who asked and who agrees mean. People have no
-- INSERT on actions; this function is their only way, and it asks for the agreement first.
CREATE FUNCTION nottwice.next_generation(old_id bigint, wait_s double precision)
RETURNS TABLE (id bigint, due_at timestamptz, now timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    made bigint;
    due  timestamptz := transaction_timestamp() + make_interval(secs => wait_s);
BEGIN
    IF NOT nottwice.is_agreed_now(old_id)
       OR NOT EXISTS (SELECT FROM nottwice.requests r JOIN nottwice.actions a ON a.id = r.action_id
                      LEFT JOIN nottwice.providers p ON p.name = a.provider
                      WHERE r.action_id = old_id AND r.decision = 'agreed' AND r.decided_at = transaction_timestamp()
                        AND coalesce(r.account, a.account) = coalesce(p.account, a.account)
                        AND ('' IN (r.place, coalesce(p.place, '')) OR r.place = p.place)) THEN
        RAISE EXCEPTION 'a new key takes the agreement of a second person' USING ERRCODE = 'insufficient_privilege';
    END IF;
    made := nottwice.copied_generation(old_id, due);
    RETURN QUERY SELECT made, due, transaction_timestamp();
END
$$;
REVOKE EXECUTE ON FUNCTION nottwice.next_generation FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.next_generation TO nottwice_support, nottwice_admin;
