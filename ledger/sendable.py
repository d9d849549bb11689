"""Whether an e-mail can go out at all, as far as that is known before anybody is called. Pure.

Asked when it is proposed, so that what can never go out takes no key, and again by a provider that has no other way to
say it. The sentences name a member and never its text, which may be a stranger's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ledger.mailboxes import parted
from ledger.provider_facts import FACTS, Facts

RECIPIENTS = ("to", "cc", "bcc")
ADDRESSES = (*RECIPIENTS, "reply_to")


def problem(content: Mapping[str, Any], provider_kind: str) -> str | None:
    """Why this e-mail can never go out through a kind of provider; None: nothing is known against it.

    Of a kind that is not known ("") it says what holds for every one.
    """
    return next(_problems(content, FACTS.get(provider_kind)), None)


def _problems(content: Mapping[str, Any], facts: Facts | None) -> Iterator[str]:
    if not any(_several(content, member) for member in RECIPIENTS):
        yield "This e-mail has no recipient."
    for member in ADDRESSES:
        for at, one in enumerate(_several(content, member)):
            if parted(one) is None:
                yield f"The recipient {member}[{at}] is not one e-mail address, like a@b.example or Name <a@b.example>."
    if facts is not None:
        yield from _of_its_kind(content, facts)


def _of_its_kind(content: Mapping[str, Any], facts: Facts) -> Iterator[str]:
    further = any(_several(content, member) for member in ADDRESSES if member != "to")
    if facts.to_one and (further or len(_several(content, "to")) != 1):
        yield f"{facts.label} takes exactly one recipient, without cc, bcc and reply-to."
    if facts.wants_to and not _several(content, "to"):
        yield f"{facts.label} wants a recipient under `to`; cc and bcc alone are not enough."
    wanted = [member for member in facts.sent_from if content.get(member)]
    if not wanted:
        yield _missing(facts)
    elif not (wanted[0] == "inbox" and facts.ids) and parted(str(content[wanted[0]])) is None:
        yield f"The {wanted[0]} of this e-mail is not one e-mail address, and {facts.label} wants one."


def _missing(facts: Facts) -> str:
    first, *others = facts.sent_from
    article = "an" if first == "inbox" else "a"
    either = "".join(f" or Email({other}=…)" for other in others)
    return f"{facts.label} wants {article} {first}: give Email({first}=…){either}."


def _several(content: Mapping[str, Any], member: str) -> list[str]:
    given = content.get(member) or ()
    return [str(one) for one in ([given] if isinstance(given, str) else given)]
