"""Sources that are told everything, for cases from the field; behind the shared door."""

from __future__ import annotations

HEAD = (
    '[sources.{}]\nkind = "generic"\nnamespace = "{}"\nsecrets = ["SHOP"]\nsignature_header = "X-Signature"\n'
)
OPTIONS = {
    # KEY-01: an id that changes with every delivery, and the same source keyed by what happened instead.
    "by-id": 'key_path = "id"\ntype_path = "event"',
    "by-occurrence": 'key_path = "message"\nkey_with = ["recipient", "at"]\ntype_path = "event"\ndelivery_header = "X-Delivery"',
    # KEY-05: types of one message share their id, and one has none.
    "by-message": 'key_path = "MessageID"\ntype_path = "RecordType"',
    # MSG-01: a mail's headers in a member, and a mail itself.
    "headers": 'key_path = "headers"\nkey_spelling = "message-id"\ntype_constant = "mail"',
    "mails": 'key_path = "text"\nkey_spelling = "message-id"\ntype_constant = "mail"\nbody_format = "text"',
    # MSG-07: an inbound mail as a form, with charsets.
    "inbound": 'key_path = "headers"\nkey_spelling = "message-id"\ntype_constant = "mail"\nbody_format = "form"',
    # BAT-06: an envelope with JSON in a text.
    "envelopes": 'key_path = "MessageId"\ntype_path = "Message.notificationType"\ntype_otherwise = "unknown"\n'
    'json_inside = ["Message"]',
    "by-content": 'key_from_body = true\nignored_members = ["attempt"]\ntype_constant = "note"',
    "by-body": 'key_header = "X-Event"\nrepeats_by_body = true\ntype_constant = "note"',
    "subscribed": 'key_path = "id"\ntype_path = "event"\nsubscription_header = "X-Subscription"',
}
CONFIG = "".join(f"{HEAD.format(name, name)}{options}\n\n" for name, options in OPTIONS.items())
