"""What a worker's configuration says of accounts, told to the ledger; and what waits for an account it no longer has."""

from __future__ import annotations

from ledger import accounts
from ledger.accounts import pauses
from ledger.database import Database, Transaction
from ledger.settings import Settings
from worker.maintenance import BATCHES_MAX, ROWS_MAX, Duty
from worker.observer import note

EVERY_S = 30.0


class Accounts:
    """Its duty, for `Maintenance` to do when it is due: at once after a start and after `use()`."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings
        self._before: Settings | None = None  # what this process had read before
        self._is_told = False
        self.duty = Duty("accounts", EVERY_S, self.look)

    def use(self, settings: Settings) -> None:
        """Go on with another configuration."""
        self._before, self._settings = self._settings, settings
        self._is_told = False
        self.duty.done_at = float("-inf")

    def look(self) -> None:
        """Tell the ledger what is new here, and judge what was written for an account that is gone from it."""
        if not self._is_told:
            for account in self._database.run(self._tell):
                note("account is tried again", account=account)
            self._is_told = True
        for _ in range(BATCHES_MAX):
            moved = self._database.run(lambda tx: accounts.judge_moved(tx, limit=ROWS_MAX))
            for one in moved:
                note("account has changed", action_id=one.id, state=one.state.value)
            if len(moved) < ROWS_MAX:
                return

    def _tell(self, tx: Transaction) -> list[str]:
        """What somebody may have mended (a key, a right, an address) is tried at once, not when its pause is over."""
        accounts.register(tx, self._settings)
        given, before = self._settings.providers, self._before.providers if self._before else {}
        changed = [name for name in given if name in before and given[name] != before[name]]
        account_of = self._settings.account_of
        return pauses.reopen(tx, [account_of(name) for name in given], [account_of(name) for name in changed])
