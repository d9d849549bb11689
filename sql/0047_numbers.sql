-- No two sends are one message: of two decisions of one moment that would close two sends under one number, the second
-- one waits for the first and is refused.

-- As ledger/message_ids.py meeting_key() spells it; a test compares the two.
CREATE FUNCTION nottwice.meeting_key(message_id text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(found) <= 1000 THEN found
                ELSE 'sha256:' || encode(sha256(nottwice.part(convert_to(found, 'UTF8'))), 'hex') END
    FROM (SELECT coalesce(nullif(btrim(message_id, E' \t\r\n<>'), ''), btrim(message_id, E' \t\r\n')) AS found) AS s
$$;

-- What a person closed under a number. What a provider accepted is not in it: its number is proof, not a word.
CREATE UNIQUE INDEX one_send_a_number ON nottwice.actions (account, nottwice.meeting_key(message_id))
    WHERE state = 'sent' AND verdict <> 'was_sent' AND message_id IS NOT NULL;
