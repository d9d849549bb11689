-- Order: events with one ordering key (a lane, within its namespace) run one at a time, in the order of their ids.

-- A stranger chooses the key, so a row holds its digest. Ids are given in the order in which deliveries arrived, so the
-- receiver draws them itself: rows are written in the order of their keys, against deadlocks.
ALTER TABLE nottwice.events
    ADD COLUMN ordering_digest bytea CONSTRAINT an_ordering_digest_is_sha256 CHECK (octet_length(ordering_digest) = 32),
    -- Another one of its lane that goes first: until that has ended this row is offered to nobody.
    ADD COLUMN waits_behind    bigint,
    -- What its last claim found: the nearest earlier one that was set aside, and the last of the later ones that are done.
    ADD COLUMN passed_over     bigint,
    ADD COLUMN overtaken_by    bigint,
    ADD CONSTRAINT only_a_pending_event_of_a_lane_waits CHECK (
        waits_behind IS NULL OR (state = 'pending' AND ordering_digest IS NOT NULL));

GRANT USAGE ON SEQUENCE nottwice.events_id_seq TO nottwice_receiver;
GRANT SELECT (ordering_digest, waits_behind, passed_over, overtaken_by) ON nottwice.events
    TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;
