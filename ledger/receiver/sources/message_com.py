"""message.com's webhooks, as far as its article goes; the rest is configured.

Known is that every outgoing delivery carries `X-Message-Webhook-Id`, which the article takes for its key, that an answer is
awaited for 10 s, and that any 2xx will do. The signature is not published (the article calls a function it does not show),
nor are the timestamp, the type and the body. So the kind stays off until the configuration says how it is signed.
"""

from __future__ import annotations

from ledger.receiver.sources.configured import NAMING, SIGNING, UNPUBLISHED, Configured
from ledger.receiver.sources.facts import Facts


class MessageCom(Configured):
    """Off until configured; its key is known."""

    kind = "message.com"
    unpublished = UNPUBLISHED
    known_key_header = "X-Message-Webhook-Id"
    facts = Facts(
        sender="message.com",
        signature="not published: an HMAC as configured",
        clock="not published: `timestamp_header`, `timestamp_unit`, `tolerance_s`",
        key="type and `X-Message-Webhook-Id`, unless `key_header` or `key_path` names another",
        subscription="part of the key where `subscription_header` or `subscription_path` names it",
        occurrence="none; with `repeats_by_body` type and body",
        type="not published: `type_header`, `type_path` or `type_constant`",
        event_time="not published: `time_path`",
        resource_ids="not published",
        lists=True,
        ack_s=10.0,
        takes=SIGNING | NAMING | {"type_constant"},
    )
