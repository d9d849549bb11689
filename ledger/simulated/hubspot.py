"""HubSpot: a list with one change, signed by version 3: method, address, body and milliseconds, base64."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from typing import Any
from urllib.parse import unquote

from ledger.settings import SourceSettings
from ledger.simulated import Sending

KIND = "hubspot"
UNDONE = re.compile("%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)  # validating requests


def example(_source: SourceSettings, _secret: str, number: int) -> bytes:
    change: dict[str, Any] = {
        "eventId": secrets.randbelow(10**10),
        "subscriptionId": 12345,
        "portalId": 62515,
        "appId": 54321,
    }
    change |= {"occurredAt": int(time.time() * 1000), "subscriptionType": "contact.propertyChange"}
    change |= {"attemptNumber": 0, "objectId": number, "changeSource": "CRM"}
    return json.dumps(
        [change | {"propertyName": "email", "propertyValue": f"c{number}@example.com"}]
    ).encode()


def headers(source: SourceSettings, sending: Sending, body: bytes) -> dict[str, str]:
    at = str(sending.at_s * 1000)
    url = UNDONE.sub(lambda escape: unquote(escape[0]), source.public_url)
    mac = hmac.new(sending.secret.encode(), f"POST{url}".encode() + body + at.encode(), hashlib.sha256)
    return {
        "X-HubSpot-Signature-v3": base64.b64encode(mac.digest()).decode(),
        "X-HubSpot-Request-Timestamp": at,
    }
