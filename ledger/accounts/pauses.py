"""Provider accounts that are held: by a rate limit, a key that is not taken, a line that does not stand, silence.

A pause belongs to the account, never to an action: what waits behind it burns no try. Its row stays after its time
until a call succeeds. Meanwhile one send at a time, over all processes, tries the account, and a further pause is
longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ledger.database import Transaction
from ledger.records import Accepted, NotSent, Outcome, OutcomeKind, Refused, Unknown

PAUSE_S_MAX = 600.0
FORGOTTEN_S = 600.0  # a pause that nobody came back to for so long is no beginning of the next one
UNKNOWNS_IN_A_ROW = (
    3  # then an account without keys is held: each further try may be one more doubt for a person
)
SILENT = "Three sends in a row ended without a clear answer."


@dataclass(frozen=True, slots=True)
class Pause:
    """An account that is held until a moment, for how long it has been, and why (in the words of the provider's table).

    `id` tells this pause from a later one of the same account.
    """

    id: int
    account: str
    paused_until: datetime
    since_s: float
    reason: str


PAUSE = """
INSERT INTO nottwice.provider_pauses AS old (account, paused_until, reason, by_settings)
VALUES (:account, now() + make_interval(secs => :least_s), :reason, :by_settings)
ON CONFLICT (account) DO UPDATE SET
    (since, told, paused_until) = (
        SELECT CASE WHEN anew THEN now() ELSE old.since END, old.told AND NOT anew,
               greatest(old.paused_until, now() + make_interval(secs => greatest(:least_s,
                   CASE WHEN :named OR anew THEN 0 ELSE least(:most_s, extract(epoch FROM now() - old.since)) END)))
        FROM (SELECT old.paused_until < now() - make_interval(secs => :forgotten_s) AS anew) AS judged),
    reason = excluded.reason, by_settings = excluded.by_settings
"""


def pause(
    tx: Transaction,
    account: str,
    reason: str,
    *,
    retry_after_s: float | None = None,
    pause_s: float = 30.0,
    by_settings: bool = False,
) -> None:
    """Hold a provider account: as long as the provider says, else twice as long each time, at most ten minutes.

    A longer pause is never shortened. The series ends with the first call that succeeds.
    """
    named = retry_after_s is not None and retry_after_s > 0
    least_s = min(retry_after_s or pause_s, PAUSE_S_MAX) if named else min(pause_s, PAUSE_S_MAX)
    tx.execute(
        PAUSE,
        account=account,
        reason=reason[:500],
        by_settings=by_settings,
        least_s=least_s,
        most_s=PAUSE_S_MAX,
        named=named,
        forgotten_s=FORGOTTEN_S,
    )


def touch(tx: Transaction, account: str, outcome: Outcome, *, keyless: bool, pause_s: float) -> bool:
    """Begin, lengthen or end the pause of an account by an answer that was just written down.

    Returns whether the answer is the account's fault, not the action's.
    """
    match outcome:
        case NotSent(pauses=True):
            wish_s = outcome.retry_after_s
            by_settings = outcome.by_settings
            pause(tx, account, outcome.reason, retry_after_s=wish_s, pause_s=pause_s, by_settings=by_settings)
            return True
        case Accepted() | Refused():
            tx.execute(
                "DELETE FROM nottwice.provider_pauses WHERE account = :account AND paused_until < now()",
                account=account,
            )
        case Unknown() if keyless and _is_silent(tx, account):
            pause(tx, account, SILENT, pause_s=pause_s)
    return False


def announced(tx: Transaction, account: str) -> Pause | None:
    """The pause of an account that no process has spoken of yet; whoever gets it, says it. None for all others."""
    row = tx.first(
        """UPDATE nottwice.provider_pauses SET told = true WHERE account = :account AND NOT told
           RETURNING id, account, paused_until, nottwice.seconds_since(since) AS since_s, reason""",
        account=account,
    )
    return None if row is None else Pause(**row._asdict())


REOPEN = """
UPDATE nottwice.provider_pauses SET paused_until = now()
WHERE account = ANY(CAST(:accounts AS text[])) AND paused_until > now()
  AND (by_settings OR account = ANY(CAST(:changed AS text[])))
RETURNING account
"""


def reopen(tx: Transaction, accounts: Sequence[str], changed: Sequence[str] = ()) -> list[str]:
    """Settings were read anew: what they may have mended is tried at once, by one send; returns those accounts.

    That is every pause that a key, a right or an address caused, and any pause of an account in `changed`. What a
    provider asked for is otherwise kept.
    """
    rows = tx.all(REOPEN, accounts=list(accounts), changed=list(changed))
    return [row.account for row in rows]


STANDING = """
SELECT id, account, paused_until, nottwice.seconds_since(since) AS since_s, reason
FROM nottwice.provider_pauses WHERE paused_until > now() ORDER BY account
"""


def standing(tx: Transaction) -> list[Pause]:
    """What is held at this moment."""
    return [Pause(**row._asdict()) for row in tx.all(STANDING)]


def _is_silent(tx: Transaction, account: str) -> bool:
    """Whether the last answers of an account were all none."""
    rows = tx.all(
        """SELECT outcome FROM nottwice.action_attempts WHERE account = :account AND answered_at IS NOT NULL
           ORDER BY answered_at DESC LIMIT :n""",
        account=account,
        n=UNKNOWNS_IN_A_ROW,
    )
    return len(rows) == UNKNOWNS_IN_A_ROW and all(r.outcome == OutcomeKind.UNKNOWN for r in rows)
