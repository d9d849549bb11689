-- Why a handler runs: the third way is to let chosen actions out once more.
ALTER TABLE nottwice.events
    DROP CONSTRAINT the_mode_is_known,
    ADD CONSTRAINT the_mode_is_known CHECK (mode IN ('first', 'recompute', 'repeat'));
