-- The review desk, at a price that does not grow with what waits on it.

-- Which mistake costs most.
CREATE FUNCTION nottwice.cost_rank(cost text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_position(ARRAY['high', 'medium', 'low'], cost)
$$;
-- In the order of the desk: the costliest mistake first, then the longest wait.
CREATE INDEX actions_desk ON nottwice.actions (state, nottwice.cost_rank(cost), coalesce(review_since, created_at), id)
    WHERE state = 'needs_review' OR state = 'proposed';

-- Seconds since 2000: an index may hold it, as no zone has a say in it.
CREATE FUNCTION nottwice.seconds_of(moment timestamptz) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CAST(extract(epoch FROM moment - CAST('2000-01-01 00:00:00+00' AS timestamptz)) AS double precision)
$$;
-- As nottwice.key_ends, in these seconds.
CREATE FUNCTION nottwice.key_ends_s(started_at timestamptz, window_s double precision, margin_s double precision)
RETURNS double precision LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT nottwice.seconds_of(started_at) + least(window_s - margin_s, 3153600000)
$$;
-- Those whose key ends soon, which go before all others.
CREATE INDEX actions_key_ends ON nottwice.actions (nottwice.key_ends_s(first_started_at, key_window_s, key_margin_s))
    WHERE state = 'needs_review' AND key_window_s IS NOT NULL;

-- By what they have in common, without their rows.
CREATE INDEX actions_by_cause ON nottwice.actions (provider, kind, first_started_at, id)
    WHERE state = 'needs_review' AND first_started_at IS NOT NULL;
