"""Microsoft Graph: a collection with one notification, which repeats the secret as `clientState`. Nothing is signed."""

from __future__ import annotations

import json
import secrets
from typing import Any

from ledger.settings import SourceSettings
from ledger.simulated import Sending

KIND = "microsoft-graph"


def example(_source: SourceSettings, secret: str, number: int) -> bytes:
    message, etag = secrets.token_hex(8), f'W/"{secrets.token_hex(8)}"'
    data = {"@odata.type": "#Microsoft.Graph.Message", "@odata.etag": etag, "id": message}
    element: dict[str, Any] = {"subscriptionId": f"subscription-{number}", "tenantId": "tenant-1"}
    element |= {"clientState": secret, "changeType": "created", "resource": f"users/u/messages/{message}"}
    element |= {"resourceData": data, "subscriptionExpirationDateTime": "2030-01-01T00:00:00Z"}
    return json.dumps({"value": [element]}).encode()


def headers(_source: SourceSettings, _sending: Sending, _body: bytes) -> dict[str, str]:
    return {}
