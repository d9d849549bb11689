"""Any sender: what the demo's shop reports, signed and named as the source is configured."""

from __future__ import annotations

from ledger.simulated.configured import example as example
from ledger.simulated.configured import headers as headers
from ledger.simulated.configured import new_secret as new_secret

KIND = "generic"
