-- One human is one person, however they signed in: where two people are needed, two rows of people with the same e-mail
-- address are not two. An address is stored only as its issuer, or the configuration, vouches for it.

CREATE FUNCTION nottwice.same_human(one bigint, other bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT one = other OR EXISTS (
        SELECT FROM nottwice.people a, nottwice.people b
        WHERE a.id = one AND b.id = other AND btrim(a.email) <> '' AND lower(btrim(a.email)) = lower(btrim(b.email)))
$$;
REVOKE EXECUTE ON FUNCTION nottwice.same_human FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.same_human
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- Whoever asked is told from who agrees by their numbers already, in each table's own constraint; here by who they are.
CREATE FUNCTION nottwice.who_agrees_is_another_human() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    agrees bigint := to_jsonb(NEW) ->> TG_ARGV[0];
BEGIN
    IF agrees <> NEW.requested_by AND nottwice.same_human(agrees, NEW.requested_by) THEN
        RAISE EXCEPTION 'who agrees is who asked, under another sign-in: %', NEW.id USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER agreeing_takes_another_human BEFORE UPDATE ON nottwice.requests
    FOR EACH ROW WHEN (NEW.decision = 'agreed') EXECUTE FUNCTION nottwice.who_agrees_is_another_human('decided_by');
CREATE TRIGGER agreeing_takes_another_human BEFORE UPDATE ON nottwice.stuck_requests
    FOR EACH ROW WHEN (NEW.decision = 'agreed') EXECUTE FUNCTION nottwice.who_agrees_is_another_human('decided_by');
CREATE TRIGGER agreeing_takes_another_human BEFORE UPDATE ON nottwice.together
    FOR EACH ROW WHEN (NEW.state = 'done') EXECUTE FUNCTION nottwice.who_agrees_is_another_human('decided_by');
CREATE TRIGGER agreeing_takes_another_human BEFORE UPDATE ON nottwice.reprocess_runs
    FOR EACH ROW WHEN (NEW.agreed_by IS DISTINCT FROM OLD.agreed_by) EXECUTE FUNCTION nottwice.who_agrees_is_another_human('agreed_by');

-- What a person agreed to within the hour and did not get through is looked for on every visit to what is stuck.
CREATE INDEX stuck_requests_agreed ON nottwice.stuck_requests (decided_by, decided_at) WHERE decision = 'agreed';
