"""GitHub: an issue that was opened, signed as docs.github.com has it; the delivery's GUID and the event are headers."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from datetime import UTC, datetime
from typing import Any

from ledger.settings import SourceSettings
from ledger.simulated import Sending

KIND = "github"


def example(_source: SourceSettings, _secret: str, number: int) -> bytes:
    issue: dict[str, Any] = {
        "id": secrets.randbelow(10**10),
        "number": number,
        "title": f"A question ({number})",
    }
    issue |= {"created_at": datetime.now(UTC).isoformat(timespec="seconds"), "user": {"login": "octocat"}}
    repository = {"id": 1296269, "full_name": "acme/shop"}
    event = {"action": "opened", "issue": issue, "repository": repository, "sender": {"login": "octocat"}}
    return json.dumps(event).encode()


def headers(_source: SourceSettings, sending: Sending, body: bytes) -> dict[str, str]:
    mac = hmac.new(sending.secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "X-Hub-Signature-256": f"sha256={mac}",
        "X-GitHub-Delivery": sending.delivery,
        "X-GitHub-Event": "issues",
        "X-GitHub-Hook-ID": "292430182",
    }
