"""What one e-mail address is, here as for every provider. Pure."""

from __future__ import annotations

import re

ADDRESS = re.compile(r"[^\s,;:<>()\[\]\\\"@]+@[^\s,;:<>()\[\]\\\"@]+")


def parted(text: str) -> tuple[str, str] | None:
    """The name, as it is written, and the mailbox of `a@b` or `Name <a@b>`; None: this is not exactly one address."""
    name, bracket, rest = text.strip().rpartition("<")
    mailbox = rest.removesuffix(">") if bracket else rest
    if not ADDRESS.fullmatch(mailbox) or not mailbox.isprintable() or (bracket and not rest.endswith(">")):
        return None
    return name, mailbox
