"""Mailera's webhooks, as far as their maker's article goes (mailera.app: email webhook deduplication); the rest is configured.

Known are names of headers: `X-MailHub-Event`, `X-MailHub-Delivery`, `X-MailHub-Timestamp`, and for signatures
`X-MailHub-Signature` and `X-Mailera-Signature`; and that `message.received` and `message.junk` are two events even for one
message. Not published are the signed string, its encoding, the timestamp's unit, which id survives a retry, and the body.
So nothing is assumed: the kind stays off until the configuration says all of it. The article itself asks to choose between
the two ids by their documented meaning, because their names do not tell which of them stays the same.
"""

from __future__ import annotations

from ledger.receiver.sources.configured import NAMING, SIGNING, TELLING, UNPUBLISHED, Configured
from ledger.receiver.sources.facts import Facts


class Mailera(Configured):
    """Off until configured. A type that is the same for all would merge received and junk, so there is none."""

    kind = "mailera"
    unpublished = UNPUBLISHED
    facts = Facts(
        sender="Mailera",
        signature="not published: an HMAC as configured; its article names `X-MailHub-Signature` and `X-Mailera-Signature`",
        clock="not published: `timestamp_header` (its article names `X-MailHub-Timestamp`), `timestamp_unit`, `tolerance_s`",
        key="not published: type, and what `key_header` or `key_path` finds; its article names `X-MailHub-Event` and "
        "`X-MailHub-Delivery`, of which only one survives a retry",
        subscription="part of the key where `subscription_header` or `subscription_path` names it",
        occurrence="none; with `repeats_by_body` type and body",
        type="not published: `type_header` or `type_path`",
        event_time="not published: `time_path`",
        resource_ids="not published",
        lists=True,
        takes=SIGNING | NAMING | TELLING,
    )
