"""Above how many rows of one person within an hour a second one is needed, where the database itself looks at it.

It stands there as the workers are configured: whoever asks for a run has no say in it.
"""

from __future__ import annotations

from ledger.database import Transaction

KEEP = """
INSERT INTO nottwice.reprocess_limit AS l (second_person_above) VALUES (:above)
ON CONFLICT (the_one) DO UPDATE SET second_person_above = :above WHERE l.second_person_above <> :above
"""


def keep_limit(tx: Transaction, above: int) -> bool:
    """What a worker's configuration says; whether it was something else."""
    return bool(tx.execute(KEEP, above=above).rowcount)
