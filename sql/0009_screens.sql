-- What screens ask for more than once.

-- How long ago, in seconds; 0 for nothing and for what is still to come.
CREATE FUNCTION nottwice.seconds_since(moment timestamptz) RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT CAST(greatest(0, coalesce(extract(epoch FROM now() - moment), 0)) AS double precision)
$$;

-- Recipients and subject as the person who asks may see them: whole, or masked and without the subject.
CREATE VIEW nottwice.recipients AS
    SELECT c.action_id,
           CASE WHEN seen.whole THEN c.recipients
                ELSE ARRAY(SELECT left(r, 1) || '•••' || coalesce('@' || nullif(split_part(r, '@', 2), ''), '')
                           FROM unnest(c.recipients) AS r) END AS recipients,
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
