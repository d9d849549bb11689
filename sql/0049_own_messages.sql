-- Whose a message may be: what a common word about many sends rests on (ledger/evidence/rests.py).

-- Which hints there are of a message. Only sends in doubt have hints, so that this stays small.
CREATE INDEX hints_of_message ON nottwice.evidence (nottwice.meeting_key(message_id))
    WHERE points_to = 'sent' AND NOT proof AND message_id IS NOT NULL;

-- The send, not this one, that a message of an account is known as: by its provider's record, or by the number that a
-- person closed it with, however either is spelled.
CREATE FUNCTION nottwice.known_as_other(send bigint, of_account text, message text) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        (SELECT m.action_id FROM nottwice.messages m
         WHERE m.account = of_account AND m.message_id = nottwice.meeting_key(message) AND m.action_id <> send),
        (SELECT g.id FROM nottwice.actions g WHERE g.account = of_account AND nottwice.meeting_key(g.message_id) = nottwice.meeting_key(message)
         AND g.state = 'sent' AND g.verdict <> 'was_sent' AND g.message_id IS NOT NULL AND g.id <> send),
        (SELECT min(g.id) FROM nottwice.actions g
         WHERE g.message_id IN (message, btrim(message, E' \t\r\n<>'), '<' || btrim(message, E' \t\r\n<>') || '>')
         AND g.account = of_account AND g.state = 'sent' AND g.id <> send))
$$;

-- The other sends that may be the same message, whatever became of them: one that was closed without a number may be it
-- still. Not one that is known by another number, or did not go out.
CREATE FUNCTION nottwice.rivals_for(send bigint, of_account text, message text) RETURNS SETOF bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT DISTINCT o.id
    FROM nottwice.evidence e JOIN nottwice.actions o ON o.id = e.action_id
    WHERE nottwice.meeting_key(e.message_id) = nottwice.meeting_key(message) AND e.points_to = 'sent' AND NOT e.proof AND e.message_id IS NOT NULL
      AND o.id <> send AND o.account = of_account
      AND NOT (o.state = 'sent' AND o.message_id IS NOT NULL) AND o.verdict IS DISTINCT FROM 'was_not_sent'
      AND NOT EXISTS (SELECT FROM nottwice.evidence w WHERE w.action_id = o.id AND w.points_to = 'neither' AND w.id > e.id
                      AND nottwice.meeting_key(w.message_id) = nottwice.meeting_key(message))
$$;
