-- No two sends are one message: of two decisions of one moment that would close two sends under one number, the second
-- one waits for the first and is refused.

-- As ledger/evidence/message_ids.py meeting_key() spells it; a test compares the two.
CREATE FUNCTION nottwice.meeting_key(message_id text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(found) <= 1000 THEN found
                ELSE 'sha256:' || encode(sha256(nottwice.part(convert_to(found, 'UTF8'))), 'hex') END
    FROM (SELECT coalesce(nullif(btrim(message_id, E' \t\r\n<>'), ''), btrim(message_id, E' \t\r\n')) AS found) AS s
$$;

-- What a person closed under a number. What a provider accepted is not in it: its number is proof, not a word.
CREATE UNIQUE INDEX one_send_a_number ON nottwice.actions (account, nottwice.meeting_key(message_id))
    WHERE state = 'sent' AND verdict <> 'was_sent' AND message_id IS NOT NULL;

-- Whether something that was found, and not taken back since, points to a send's having gone out. As
-- ledger/together/deciding.py has it of what it read.
CREATE FUNCTION nottwice.points_to_sent(send bigint) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT EXISTS (SELECT FROM nottwice.evidence e WHERE e.action_id = send AND e.points_to = 'sent'
                   AND (e.proof OR NOT EXISTS (
                        SELECT FROM nottwice.evidence w WHERE w.action_id = send AND w.points_to = 'neither' AND w.id > e.id
                        AND nottwice.meeting_key(w.message_id) = nottwice.meeting_key(e.message_id))))
$$;
