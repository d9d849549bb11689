-- How many of an event's further deliveries could not be compared with the first: its content was no longer kept, or its
-- digest was made by other rules. They are duplicates, and nobody can say whether they said the same.
ALTER TABLE nottwice.duplicates ADD COLUMN not_compared bigint NOT NULL DEFAULT 0;
GRANT UPDATE (not_compared) ON nottwice.duplicates TO nottwice_receiver;
