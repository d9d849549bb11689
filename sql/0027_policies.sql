-- What a kind's configuration says beside its policy: until when it is worth sending, and how many one recipient gets.

ALTER TABLE nottwice.actions ADD COLUMN send_before timestamptz;  -- from then on it is not sent any more, whoever asks
CREATE INDEX actions_too_late ON nottwice.actions (send_before, id) WHERE state IN ('proposed', 'approved') AND send_before IS NOT NULL;

-- Of kinds with a rate: to whom an action was to go, and until when it counts. The recipient is hashed: it is only compared.
CREATE TABLE nottwice.rated (
    action_id         bigint NOT NULL REFERENCES nottwice.actions,
    namespace         text NOT NULL,
    kind              text NOT NULL,
    recipient_digest  bytea NOT NULL,
    counts_until      timestamptz NOT NULL,
    PRIMARY KEY (action_id, recipient_digest)
);
CREATE INDEX rated_recipients ON nottwice.rated (namespace, kind, recipient_digest, counts_until);
CREATE INDEX rated_over ON nottwice.rated (counts_until);

-- Its kind asked for a person's word, when it was proposed.
ALTER TABLE nottwice.actions ADD COLUMN approval boolean NOT NULL DEFAULT false;

-- Whether a person let exactly this go. Their word is in the audit, which names the content by its digest and never changes:
-- a row that says it was approved is not enough, nor one that was approved with another content.
CREATE FUNCTION nottwice.was_let_go(wanted bigint, digest bytea) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    SELECT coalesce((
        SELECT u.state_after = 'approved' AND position('content ' || encode(digest, 'hex') IN u.detail) > 0
        FROM nottwice.audit u
        WHERE u.entity = 'action' AND u.entity_id = wanted AND u.person_id IS NOT NULL AND u.entity_version IS NOT NULL
        ORDER BY u.id DESC LIMIT 1), false)
$$;
REVOKE EXECUTE ON FUNCTION nottwice.was_let_go FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.was_let_go TO nottwice_worker;

-- What a new action may not do is decided in its own transaction, by whoever proposes: an application, too, which may change
-- no action. So these work with the owner's rights, and only on an action that this transaction made.
CREATE FUNCTION nottwice.is_new(wanted bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM nottwice.actions a
                   WHERE a.id = wanted AND a.version = 1 AND a.generation = 1 AND a.created_at = transaction_timestamp()
                     AND a.state IN ('proposed', 'approved'))
$$;

-- The recipients who have had as many of a kind as they get: what may have gone out, and what still may.
CREATE FUNCTION nottwice.had_as_many(within text, wanted text, digests bytea[], most integer) RETURNS SETOF bytea LANGUAGE sql STABLE AS $$
    SELECT r.recipient_digest FROM nottwice.rated r JOIN nottwice.actions a ON a.id = r.action_id
    WHERE r.namespace = within AND r.kind = wanted AND r.recipient_digest = ANY(digests) AND r.counts_until > now()
      AND a.state NOT IN ('declined', 'refused', 'failed')
      AND NOT (a.state = 'closed' AND a.verdict IS NOT DISTINCT FROM 'was_not_sent')
    GROUP BY r.recipient_digest HAVING count(*) >= most
$$;

-- Whether a new action is one too many for one of its recipients; if not, it counts from now on. One at a time for each
-- recipient of a kind, until the transaction ends: else two of the same instant would not see each other. In one order,
-- so that two with several recipients do not wait for each other. A lock's number is 64 bits of a hash: two recipients
-- that share them wait for each other, no more.
CREATE FUNCTION nottwice.is_one_too_many(wanted bigint, digests bytea[], most integer, within_s double precision) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
DECLARE
    new   nottwice.actions;
    digest bytea;
BEGIN
    IF NOT nottwice.is_new(wanted) THEN
        RAISE EXCEPTION 'only a new action is counted' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT * INTO new FROM nottwice.actions a WHERE a.id = wanted;
    FOR digest IN SELECT d FROM unnest(digests) AS d ORDER BY d LOOP
        PERFORM pg_advisory_xact_lock(hashtextextended(new.namespace || E'\n' || new.kind || E'\n' || encode(digest, 'hex'), 0));
    END LOOP;
    IF EXISTS (SELECT FROM nottwice.had_as_many(new.namespace, new.kind, digests, most)) THEN
        RETURN true;
    END IF;
    INSERT INTO nottwice.rated (action_id, namespace, kind, recipient_digest, counts_until)
    SELECT new.id, new.namespace, new.kind, d, now() + make_interval(secs => within_s) FROM unnest(digests) AS d;
    RETURN false;
END
$$;

-- A new action that may not go out: closed with its audit row, and its key is taken.
CREATE FUNCTION nottwice.hold_back(wanted bigint, reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
BEGIN
    IF NOT nottwice.is_new(wanted) THEN
        RAISE EXCEPTION 'only a new action is held back' USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO nottwice.audit (role, act, entity, entity_id, entity_version, outcome, why, state_before, state_after)
    SELECT 'policy', 'closed by policy', 'action', a.id, 2, 'done', reason, a.state, 'closed' FROM nottwice.actions a WHERE a.id = wanted;
    UPDATE nottwice.actions SET state = 'closed', verdict = 'was_not_sent', due_at = NULL, settled_at = now(), version = 2
    WHERE id = wanted;
END
$$;

REVOKE EXECUTE ON FUNCTION nottwice.is_one_too_many, nottwice.hold_back FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.is_one_too_many, nottwice.hold_back TO nottwice_worker, nottwice_application;
GRANT INSERT (send_before, approval), SELECT (send_before) ON nottwice.actions TO nottwice_application;

GRANT SELECT, DELETE ON nottwice.rated TO nottwice_worker;
GRANT SELECT (send_before, approval) ON nottwice.actions TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- ── What became of messages ──────────────────────────────────────────────────────────────────────────

-- The order of a message's life, for what is told of one instant; ledger/evidence/notices.py has the same, and a test compares them.
CREATE FUNCTION nottwice.place_in_life(what text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_position(ARRAY['sent', 'delivered', 'bounced', 'complained', 'rejected'], what)
$$;

-- Where a message stands: of the last that was told for each recipient, by the time at which it happened, the worst for us.
ALTER TABLE nottwice.messages ADD COLUMN standing text
    CONSTRAINT a_standing_is_what_became_of_it CHECK (standing IN ('sent', 'delivered', 'bounced', 'complained', 'rejected'));
-- Counts by standing: one entry of some bytes a message of ours, read without the table.
CREATE INDEX messages_standing ON nottwice.messages (standing) WHERE standing IS NOT NULL AND action_id IS NOT NULL;
-- What was accepted and came back, for today's figure.
CREATE INDEX messages_not_arrived ON nottwice.messages (seen_at) WHERE standing IN ('bounced', 'rejected') AND action_id IS NOT NULL;

CREATE FUNCTION nottwice.standing_of(of_account text, of_message text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT last.what FROM (
        SELECT DISTINCT ON (n.recipient_digest) n.what FROM nottwice.notices n
        WHERE n.account = of_account AND n.message_id = of_message
        ORDER BY n.recipient_digest, n.occurred_at DESC, nottwice.place_in_life(n.what) DESC, n.event_id DESC) AS last
    ORDER BY array_position(ARRAY['rejected', 'bounced', 'complained', 'sent', 'delivered'], last.what) LIMIT 1
$$;

-- For those who see figures: how many, and nothing of whose.
GRANT SELECT (standing, seen_at, action_id) ON nottwice.messages
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
