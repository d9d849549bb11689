"""Time that has passed for the leases of a process, so that no test waits for it."""

from __future__ import annotations

from ledger.database import Transaction

HELD = "WHERE claimed_by IN (SELECT id FROM nottwice.workers WHERE pid = :pid)"


def run_out(tx: Transaction, pid: int) -> None:
    """What time does to all that one holds who is dead or stands still; the sweep was here just now."""
    for table in ("events", "actions"):
        tx.execute(f"UPDATE nottwice.{table} SET lease_until = now() - interval '1 s' {HELD}", pid=pid)
    tx.execute("UPDATE nottwice.maintenance SET last_at = now(), resume_at = now() WHERE duty = 'sweep'")
