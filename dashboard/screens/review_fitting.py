"""Which sends of a group fit which decision, and why the others do not. The ledger looks again, and is the judge."""

from __future__ import annotations

from dashboard.words import many
from ledger import together
from ledger.evidence.rests import Rest, against_sent
from ledger.records import Decision
from ledger.views.together import Group, Member

OFFERED = (Decision.WAS_SENT, Decision.RESEND_SAME_KEY, Decision.DO_NOT_SEND)


def fitting(group: Group, decision: Decision, wait_s: float) -> list[Member]:
    """Those that can be decided like this, as far as the page knows."""
    if decision is Decision.WAS_SENT:
        return [member for member in group.members if not against_sent(member.rest)]
    plain = [member for member in group.members if not member.rest.points_to_sent]
    if decision is Decision.DO_NOT_SEND:
        return plain
    return [member for n, member in enumerate(plain) if _has_key(member, wait_s + n * together.PACE_S)]


def _has_key(member: Member, goes_s: float) -> bool:
    if member.looking_s > 0:
        return False
    return member.verdict == "was_not_sent" or (member.key_left_s or 0.0) > goes_s


def can_be_decided(group: Group, wait_s: float) -> bool:
    """Whether one word about any of them is possible."""
    return any(fitting(group, decision, wait_s) for decision in OFFERED)


def alone_words(group: Group) -> str:
    """Of which it may not be said in common that they were sent, and why; empty when there are none."""
    left = [m.rest for m in group.members if m.rest.points_to_sent and against_sent(m.rest)]
    if not left:
        return ""
    messages = {key for rest in left for key in rest.messages}
    if not messages:
        return f"{many(len(left), 'send')} without a message of their own: decide these one by one."
    return f"{many(len(left), 'send')}, {many(len(messages), 'message')}: decide these one by one."


def rests_on(rest: Rest) -> str:
    """What a common word about one send would rest on, for its row."""
    if rest.is_proven:
        return "Proof"
    if not rest.points_to_sent:
        return "Nothing found"
    if not rest.messages:
        return "No message of its own"
    found = many(len(rest.messages), "message")
    if rest.rivals:
        return f"{found}, shared with {many(len(rest.rivals), 'other send')}"
    if rest.points_to_not_sent:
        return f"{found}, and a word against it"
    if rest.message_id is None:
        return f"{found}: which?"
    return f"{found}, from before" if rest.early else f"{found}, its own"
