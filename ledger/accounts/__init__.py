"""Which account a provider's name stands for, as the workers' configuration has it, and the sends written for another.

An action keeps the account it was written for: its key protects there alone, and what a person approved names it. Where
the name stands for another account since, or for one of another kind, it goes to a person instead of out. Where it only has
another address, what may have gone out at the old one does: no key protects it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.actions import apart
from ledger.database import Transaction
from ledger.records import Rescued
from ledger.settings import Settings
from ledger.states import ActionState

REGISTER = """
INSERT INTO nottwice.providers AS old (name, kind, account, place, key_window_s, key_margin_s)
SELECT * FROM unnest(CAST(:names AS text[]), CAST(:kinds AS text[]), CAST(:accounts AS text[]), CAST(:places AS text[]),
                     CAST(:windows_s AS float8[]), CAST(:margins_s AS float8[])) AS n(name, kind, account, place, window_s, margin_s)
ORDER BY name
ON CONFLICT (name) DO UPDATE SET
    kind = excluded.kind, account = excluded.account, place = excluded.place, key_window_s = excluded.key_window_s,
    key_margin_s = excluded.key_margin_s, read_at = now()
WHERE (old.kind, old.account, old.place, old.key_window_s, old.key_margin_s)
      IS DISTINCT FROM (excluded.kind, excluded.account, excluded.place, excluded.key_window_s, excluded.key_margin_s)
"""


def register(tx: Transaction, settings: Settings) -> None:
    """Write down what the configured providers are; whoever read a configuration last is believed."""
    given = settings.providers
    tx.execute(
        REGISTER,
        names=list(given),
        kinds=[provider.kind for provider in given.values()],
        accounts=[settings.account_of(name) for name in given],
        places=[provider.place for provider in given.values()],
        windows_s=[provider.window_s for provider in given.values()],
        margins_s=[provider.margin_s for provider in given.values()],
    )


# Only of accounts that no provider stands for: of the others, the claim meets the judge.
MOVED = """
SELECT moved.id FROM nottwice.accounts_that_wait() AS waits(account)
CROSS JOIN LATERAL (
    SELECT a.id FROM nottwice.actions a JOIN nottwice.providers p ON p.name = a.provider
    WHERE a.state = 'approved' AND a.account = waits.account AND p.account <> a.account
    ORDER BY a.due_at, a.id LIMIT :limit) AS moved
WHERE NOT EXISTS (SELECT FROM nottwice.providers p WHERE p.account = waits.account)
LIMIT :limit
"""


def judge_moved(tx: Transaction, *, limit: int = 100) -> list[Rescued]:
    """Judge the sends that wait for an account which their provider's name no longer stands for; those that moved."""
    rows = sorted(row.id for row in tx.all(MOVED, limit=limit))
    judged = [apart.judge(tx, id_) for id_ in rows]
    return [one for one in judged if one.state is not ActionState.APPROVED]


@dataclass(frozen=True, slots=True)
class Unserved:
    """Sends that wait for an account that no configured provider has: how many (up to COUNTED_MAX), and for how long."""

    account: str
    provider: str
    sends: int
    oldest_s: float


COUNTED_MAX = 1000
UNSERVED = """
SELECT waits.account, min(few.provider) AS provider, count(*) AS sends,
       CAST(extract(epoch FROM now() - min(few.created_at)) AS double precision) AS oldest_s
FROM nottwice.accounts_that_wait() AS waits(account)
CROSS JOIN LATERAL (SELECT a.provider, a.created_at FROM nottwice.actions a
                    WHERE a.state = 'approved' AND a.account = waits.account ORDER BY a.due_at, a.id LIMIT :most) AS few
WHERE waits.account <> ALL (CAST(:accounts AS text[])) GROUP BY waits.account ORDER BY waits.account
"""


def unserved(tx: Transaction, accounts: Sequence[str]) -> list[Unserved]:
    """What waits beside the accounts of a configuration: nothing sends it."""
    rows = tx.all(UNSERVED, accounts=list(accounts), most=COUNTED_MAX)
    return [Unserved(**row._asdict()) for row in rows]
