"""A block of configuration for every kind of source, and one receiver that serves them all."""

from __future__ import annotations

from tests import fix_receiver as fix

# What follows `kind`, `namespace` and `secrets`, by kind. The secret is MAIL where it must be Svix's.
OPTIONS: dict[str, str] = {
    "agentmail": "",
    "generic": 'signature_header = "X-Sig"\ntimestamp_header = "X-Time"\nkey_path = "id"\ntype_path = "type"',
    "github": "",
    "hubspot": 'public_url = "https://hooks.acme.example/webhooks/hubspot?app=1"',
    "inboxili": "",
    "mailera": 'signature_header = "X-MailHub-Signature"\nalgorithm = "sha512"\nencoding = "hex"\nsecret_form = "text"\n'
    'signed = "{timestamp}.{delivery}.{body}"\ndelivery_header = "X-MailHub-Attempt"\ntimestamp_unit = "s"\n'
    'timestamp_header = "X-MailHub-Timestamp"\nkey_header = "X-MailHub-Delivery"\ntype_path = "type"',
    "message.com": 'signature_header = "X-Message-Signature"\nalgorithm = "sha256"\nencoding = "base64"\n'
    'secret_form = "text"\nsigned = "{body}"\ntype_path = "type"',
    "microsoft-graph": "",
    "shopify": "",
    "standard-webhooks": "",
    "stripe": "",
}
SVIX = ("agentmail", "standard-webhooks", "stripe")
UNSAFE = "[database]\nallow_unsafe = true\n"  # the tests' own server runs with fsync=off


def name(kind: str) -> str:
    """The kind as a source's name, which stands in an address."""
    return kind.replace(".", "_")


def block(kind: str) -> str:
    secret = "MAIL" if kind in SVIX else "SHOP"
    head = f'[sources.{name(kind)}]\nkind = "{kind}"\nnamespace = "{name(kind)}"\nsecrets = ["{secret}"]\n'
    return f"{head}{OPTIONS[kind]}\n\n"


def secret(kind: str) -> str:
    return fix.SVIX_SECRET if kind in SVIX else fix.SHOP_SECRET


def other_secret(kind: str) -> str:
    """In the same form, and not the source's."""
    return fix.OLD_SVIX_SECRET if kind in SVIX else fix.OLD_SHOP_SECRET


CONFIG = "".join(map(block, OPTIONS)) + UNSAFE
