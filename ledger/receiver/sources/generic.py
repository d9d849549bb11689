"""Any source that signs its body with an HMAC and names its events in a header or in the body.

The key is the event's type and the id found by `key_header` or `key_path` (with `key_with` as further parts, and the
subscription where one is named). A sender without any id can be told by `key_from_body`: then two events with the same
content are one, whatever happened, and `ignored_members` are no part of it.
"""

from __future__ import annotations

from ledger.receiver.sources.configured import NAMING, SIGNING, TELLING, Configured
from ledger.receiver.sources.facts import Facts


class Generic(Configured):
    """As `configured.py` says, with nothing of its own."""

    kind = "generic"
    facts = Facts(
        sender="any sender",
        signature="`signature_header`: HMAC (`algorithm`, `secret_form`) over `signed`, in `encoding`, behind `signature_prefix`; "
        "several apart by commas",
        clock="`timestamp_header`, in `timestamp_unit`, 300 s both ways (`tolerance_s`); none without it",
        key="type, and what `key_header` or `key_path` finds, with `key_with`; or the content, with `key_from_body`",
        subscription="part of the key where `subscription_header` or `subscription_path` names it",
        occurrence="none; with `repeats_by_body` type and body",
        type="`type_header`, `type_path` or `type_constant`; `type_otherwise` where there is none",
        event_time="`time_path`",
        resource_ids="the user's own",
        lists=True,
        retries="the sender's own",
        takes=SIGNING | NAMING | TELLING | {"key_from_body", "type_constant"},
    )
