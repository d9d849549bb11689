-- What a provider says became of a message: one row per event, message and recipient. Kept whether or not the send it
-- is about is known: the message's row in nottwice.messages says which send that is, as soon as anybody knows.

CREATE TABLE nottwice.notices (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account      text NOT NULL,
    message_id   text NOT NULL,             -- as ledger/evidence/message_ids.py meeting_key() spells it
    recipient    text NOT NULL DEFAULT '',  -- the bare mailbox, in small letters; '': the provider names none, or it is over its time
    recipient_digest bytea NOT NULL,        -- tells recipients apart when their names are gone
    what         text NOT NULL CONSTRAINT what_became_of_it_is_known
                 CHECK (what IN ('sent', 'delivered', 'bounced', 'complained', 'rejected')),
    detail       text NOT NULL DEFAULT '',  -- the provider's own words
    occurred_at  timestamptz NOT NULL,      -- the provider's word: for order and display, never for a lease
    event_id     bigint NOT NULL REFERENCES nottwice.events,
    noted_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT a_notice_is_about_a_message FOREIGN KEY (account, message_id) REFERENCES nottwice.messages,
    CONSTRAINT one_notice_per_event_and_recipient UNIQUE (event_id, message_id, recipient_digest)
);
CREATE INDEX notices_of_message ON nottwice.notices (account, message_id);
-- For hints: an uncertain send looks for what was said about mail to its recipient, near in time.
CREATE INDEX notices_to ON nottwice.notices (account, recipient, occurred_at) WHERE recipient <> '';
CREATE INDEX notices_whole ON nottwice.notices (id) WHERE recipient <> '' OR detail <> '';
CREATE INDEX messages_of_action ON nottwice.messages (action_id) WHERE action_id IS NOT NULL;
CREATE INDEX messages_unmatched ON nottwice.messages (seen_at, account, message_id) WHERE action_id IS NULL;
-- Our mark, where a provider sends it back; and the number that a person gave. Hashed, because people type what they like.
CREATE INDEX actions_reference ON nottwice.actions (reference);
CREATE INDEX actions_message ON nottwice.actions USING hash (message_id);

-- The bare mailbox of one address, as ledger/evidence/message_ids.py mailbox() finds it; a test compares the two.
CREATE FUNCTION nottwice.mailbox(address text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT lower(btrim(coalesce(substring(btrim(address, E' \t\r\n') FROM '<([^<>]*)>$'), address), E' \t\r\n') COLLATE "C")
$$;

-- What people see. `recipient_id` tells recipients apart for those who may not see whom.
CREATE VIEW nottwice.noticed AS
    SELECT n.id, n.account, n.message_id, n.what, n.occurred_at, n.event_id, n.noted_at, m.action_id,
           (SELECT min(f.id) FROM nottwice.notices f
            WHERE f.account = n.account AND f.message_id = n.message_id AND f.recipient_digest = n.recipient_digest) AS recipient_id,
           CASE WHEN seen.whole OR n.recipient = '' THEN n.recipient
                ELSE nottwice.masked(n.recipient) END AS recipient,
           CASE WHEN seen.whole THEN n.detail ELSE '' END AS detail
    FROM nottwice.notices n JOIN nottwice.messages m USING (account, message_id),
         LATERAL (SELECT has_column_privilege('nottwice.action_contents', 'recipients', 'SELECT') AS whole) AS seen;

GRANT SELECT, INSERT ON nottwice.notices TO nottwice_worker;
GRANT SELECT ON nottwice.noticed TO nottwice_worker, nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
