"""message.com: as the source is configured, under the id that its maker's article names."""

from __future__ import annotations

from ledger.settings import SourceSettings
from ledger.simulated import Sending, configured
from ledger.simulated.configured import example as example
from ledger.simulated.configured import new_secret as new_secret

KIND = "message.com"


def headers(source: SourceSettings, sending: Sending, body: bytes) -> dict[str, str]:
    known = {} if source.key_header or source.key_path else {"key_header": "X-Message-Webhook-Id"}
    return configured.headers(source.model_copy(update=known), sending, body)
