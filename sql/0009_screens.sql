-- What screens ask for more than once.

-- How long ago, in seconds; 0 for nothing and for what is still to come.
CREATE FUNCTION nottwice.seconds_since(moment timestamptz) RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT CAST(greatest(0, coalesce(extract(epoch FROM now() - moment), 0)) AS double precision)
$$;

-- What of a recipient is shown to those who may not see whom: of each address the first letter and the domain, and nothing
-- of the names around them. What holds no address keeps its first letter alone.
CREATE FUNCTION nottwice.masked(recipient text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(string_agg(left(ltrim(found[1], '"'), 1) || '•••' || substring(found[1] FROM '@[^@]*$'), ', ' ORDER BY place),
                    left(recipient, 1) || '•••')
    FROM regexp_matches(recipient, '(?:"[^"]*"|[^][[:space:]<>(),;:"@]+)@[^][[:space:]<>(),;:"@]+', 'g') WITH ORDINALITY
         AS each (found, place)
$$;
REVOKE EXECUTE ON FUNCTION nottwice.masked FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.masked
    TO nottwice_worker, nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- Recipients and subject as the person who asks may see them: whole, or masked and without the subject.
CREATE VIEW nottwice.recipients AS
    SELECT c.action_id,
           CASE WHEN seen.whole THEN c.recipients
                ELSE ARRAY(SELECT nottwice.masked(r) FROM unnest(c.recipients) AS r) END AS recipients,
           CASE WHEN seen.whole THEN c.subject ELSE '' END AS subject
    FROM nottwice.action_contents c,
         LATERAL (SELECT has_column_privilege('nottwice.action_contents', 'recipients', 'SELECT') AS whole) AS seen;
GRANT SELECT ON nottwice.recipients TO nottwice_viewer, nottwice_support, nottwice_engineer, nottwice_auditor, nottwice_admin;

-- The head of a rendered e-mail and the size of its parts, for those who see recipients; never the parts themselves.
-- A NUL that somebody put into a text is legal JSON but no jsonb.
CREATE FUNCTION nottwice.action_head(wanted bigint) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = nottwice, pg_temp AS $$
    SELECT (whole - 'text' - 'html') || jsonb_build_object('text_characters', length(whole ->> 'text'),
                                                           'html_characters', length(whole ->> 'html'))
    FROM (SELECT CAST(replace(convert_from(c.content, 'UTF8'), '\u0000', '\ufffd') AS jsonb) AS whole
          FROM nottwice.action_contents c WHERE c.action_id = wanted) AS content
$$;
REVOKE EXECUTE ON FUNCTION nottwice.action_head FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nottwice.action_head TO nottwice_support, nottwice_auditor, nottwice_admin;
