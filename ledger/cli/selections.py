"""A selection of events that nothing fits: were its words mistyped, or is there simply nothing?

A word that stands neither in the configuration nor in any event is taken for a slip of the pen and refused; one that is
known and fits nothing is an answer.
"""

from __future__ import annotations

from ledger.awake import as_viewer
from ledger.database import Database, Transaction
from ledger.errors import Misconfigured
from ledger.event_types import KNOWN
from ledger.settings import Settings
from ledger.settings.words import meant
from ledger.terminal import plain

TOLD_MAX = 12  # names that are told where none is near

# What ended and what waits is found by hopping through indexes; what is set aside is of no great number.
KINDS = """
SELECT source, type FROM nottwice.kinds_pending() UNION SELECT source, type FROM nottwice.kinds_done()
UNION SELECT source, type FROM nottwice.events WHERE state = 'failed'
UNION SELECT split_part(h, ' ', 1), substr(h, strpos(h, ' ') + 1) FROM nottwice.workers w, unnest(w.handles) AS h
"""
# One hop a namespace, however many events each has.
NAMESPACES = """
WITH RECURSIVE hop AS (
    (SELECT namespace FROM nottwice.events ORDER BY namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT e.namespace FROM nottwice.events e WHERE e.namespace > hop.namespace ORDER BY e.namespace LIMIT 1)
    FROM hop WHERE hop.namespace IS NOT NULL)
SELECT namespace FROM hop WHERE namespace IS NOT NULL
"""
# Asked only about a word that is none of those, so that it costs what the search itself did.
STANDS = "SELECT EXISTS (SELECT FROM nottwice.events WHERE {column} = :word) AS stands"


def refuse_mistyped(
    database: Database, settings: Settings, *, namespace: str = "", source: str = "", type_: str = ""
) -> None:
    """Raises Misconfigured for the first of these words that nothing here is called; empty: not asked for."""
    given = {"namespace": namespace, "source": source, "type": type_}

    def look(tx: Transaction) -> None:
        as_viewer(tx)
        known = _known(tx, settings)
        for column, word in given.items():
            if word and word not in known[column] and not _stands(tx, column, word):
                raise Misconfigured(_unknown(column, word, known[column]))

    if any(given.values()):
        database.run(look)


def _known(tx: Transaction, settings: Settings) -> dict[str, set[str]]:
    kinds, configured = tx.all(KINDS), settings.sources
    types = [type_ for source in configured.values() for type_ in KNOWN.get(source.kind, ())]
    return {
        "namespace": {row.namespace for row in tx.all(NAMESPACES)}
        | {one.namespace for one in configured.values()},
        "source": {row.source for row in kinds} | set(configured),
        "type": {row.type for row in kinds} | set(types),
    }


def _stands(tx: Transaction, column: str, word: str) -> bool:
    return bool(tx.one(STANDS.format(column=column), word=word).stands)


def _unknown(column: str, word: str, known: set[str]) -> str:
    names = sorted(plain(name, 60) for name in known)
    end = meant(plain(word, 60), names, tell=len(names) <= TOLD_MAX)
    return f"--{column} {plain(word, 60)} stands neither in the configuration nor in any event{end}"
