"""What must hold of what was stored: nothing is lost, nothing is there twice, and all of it can be shown."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import suppress

from ledger import payload
from ledger.audit import spreadsheet
from ledger.database import Database
from ledger.kept.readable import readable, value_words
from ledger.views import event as views_event
from ledger.views import events as views_events
from ledger.views import kept as views_kept
from ledger.views.found import Filter

STORIES, CHANGES = 20, 40
COUNTS = """
SELECT (SELECT count(*) FROM nottwice.events) AS events,
       (SELECT CAST(coalesce(sum(deliveries), 0) AS bigint) FROM nottwice.duplicates) AS duplicates,
       (SELECT CAST(coalesce(sum(deliveries), 0) AS bigint) FROM nottwice.quarantine) AS quarantined,
       (SELECT count(*) FROM nottwice.conflicts) AS conflicts
"""
BODIES = {
    "events": """SELECT e.id, concat_ws(chr(10), e.type, e.event_key, e.delivery_id, c.content_type) AS words, c.body
                 FROM nottwice.events e JOIN nottwice.event_contents c ON c.event_id = e.id WHERE e.id > :after ORDER BY e.id""",
    "quarantine": "SELECT id, reason AS words, body FROM nottwice.quarantine WHERE id > :after ORDER BY id",
    "conflicts": "SELECT id, delivery_id AS words, body FROM nottwice.conflicts WHERE id > :after ORDER BY id",
}


class Stored:
    """Looks at each row once, as a console, an export and a worker would."""

    def __init__(self, database: Database) -> None:
        self._database, self._seen = database, dict.fromkeys(BODIES, 0)

    def counts(self) -> dict[str, int]:
        row = self._database.run(lambda tx: tx.one(COUNTS))
        return dict(row._mapping)

    def look(self) -> None:
        """At what is new since the last time. Raises whatever a page would have broken with."""
        for table, sql in BODIES.items():
            after = self._seen[table]
            for row in self._database.run(lambda tx, sql=sql, after=after: tx.all(sql, after=after)):
                _show(row.words, bytes(row.body))
                self._seen[table] = row.id
        self._look_at_pages()

    def _look_at_pages(self) -> None:
        newest = self._seen["events"]
        with self._database.transaction() as tx:
            page = views_events.events(tx, Filter(), most=STORIES)
            for event_id in range(max(1, newest - STORIES), newest + 1):
                views_event.story(tx, event_id)
            kept = views_kept.conflicts(tx, most=CHANGES)
            changed = [views_kept.changes(tx, conflict.id) for conflict in kept]
            listed = [page, kept, changed, views_kept.quarantine(tx, most=STORIES)]
        payload.shown(str(listed)).encode()


def _show(words: str, body: bytes) -> None:
    read = readable(body)
    text = io.StringIO()
    spreadsheet.write(text, words.split("\n"), [[payload.shown(words), read.text]])
    (read.text + text.getvalue()).encode()
    json.dumps(words)
    with suppress(payload.Malformed):  # a form, a text, or in quarantine for it
        for value in _values(payload.parse(body)):
            payload.shown(value_words(value)).encode()
            payload.identity(value), payload.moment(value), payload.texts(value)


def _values(document: object) -> Iterator[object]:
    yield document
    if isinstance(document, dict):
        yield from document.values()
