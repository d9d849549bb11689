"""One event in words: what became of it, and step by step how. No Streamlit; what strangers said stands in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from dashboard.colours import State
from dashboard.screens.events_words import moment
from dashboard.words import many, provider, span, what
from ledger.states import ActionState
from ledger.views.event import Claim, Story, TryOf, Word

CLAIMS_SHOWN = 8  # the first one and the newest; those between are folded
SHORT_S = 1.0  # a shorter wait is no gap
CLAIM_ENDINGS: dict[str, tuple[str, State, str]] = {
    "retry": ("Try {n} failed after {took}", "broken", "✕"),
    "set_aside": ("Try {n} failed after {took}; it was set aside", "broken", "■"),
    "unavailable": ("Put off after {took}, not counted as a try", "waiting", "…"),
    "handed_back": ("Handed back after {took}: the worker was going", "waiting", "↩"),
    "rescued": ("Its worker gave no more sign; taken back after {took}", "person", "↯"),
    "taken_back": ("Handed back by a person after {took}", "person", "↩"),
    "put_aside": ("Set aside by a person after {took}", "person", "■"),
}
SEND_STATES: dict[str, tuple[str, State]] = {
    ActionState.PROPOSED: ("○ to approve", "person"),
    ActionState.APPROVED: ("… ready to go", "waiting"),
    ActionState.SENDING: ("➤ on its way", "working"),
    ActionState.NEEDS_REVIEW: ("? needs a decision", "person"),
    ActionState.SENT: ("▲ sent", "done"),
    ActionState.REFUSED: ("✕ refused", "broken"),
    ActionState.FAILED: ("✕ not sent in time", "broken"),
    ActionState.DECLINED: ("▼ declined", "waiting"),
    ActionState.CLOSED: ("■ closed", "waiting"),
}
TRY_ENDINGS: dict[str | None, tuple[str, State, str]] = {
    "accepted": ("accepted it", "done", "▲"),
    "refused": ("refused it", "broken", "✕"),
    "not_sent": ("was not reached; certainly not sent", "waiting", "▼"),
    "in_flight": ("said that this key is busy", "person", "?"),
    "unknown": ("got the request, and no clear answer came", "person", "?"),
    None: ("was called, and there is no answer yet", "working", "➤"),
}


UNSENDABLE = "unsendable"  # worker/providers: we refused it ourselves, nothing left the house
ENTITIES = {"action": "send"}  # in the console's words


class Step(NamedTuple):
    """One line of the story. `what` and `who` may hold words of strangers."""

    at: datetime
    tone: State
    mark: str
    what: str
    who: str = ""


def became(story: Story) -> str:
    """The rest of the heading: `: done in 1.4 s, delivered 3 times, 1 e-mail`."""
    parts = [_state(story)]
    if story.duplicates:
        parts.append(f"delivered {story.duplicates + 1:,} times")
    if story.sends:
        parts.append(many(len(story.sends), "e-mail"))
    return ": " + ", ".join(parts)


def _state(story: Story) -> str:
    match story.state, story.ending:
        case "processing", _:
            return f"in hand for {_since(story.claimed_at, story)}"
        case "failed", _:
            return f"set aside after {many(story.attempts, 'try', 'tries')}"
        case "completed", "ignored":
            return "ignored, as configured"
        case "completed", "unhandled":
            return "nobody handled it"
        case "completed", _:
            took = (story.ended_at or story.now) - story.accepted_at
            return f"done in {span(took.total_seconds())}"
        case _ if story.attempts:
            return f"waits for try {story.attempts + 1} of {story.attempts_max}"
    if not story.handled:
        return f"waits since {_since(story.accepted_at, story)}, and no worker handles it"
    return f"waits for a worker since {_since(story.accepted_at, story)}"


def lead(story: Story) -> str:
    """One sentence of where it stands."""
    match story.state:
        case "pending" if story.waits_behind:
            return f"It waits for event {story.waits_behind}, which has the same ordering key and goes first."
        case "pending" if not story.handled:
            return (
                "No worker has a handler for its kind. The first that has one takes it; "
                "if none comes, it is closed when its key is given up."
            )
        case "pending" if story.due_at and story.due_at > story.now:
            return f"Next try at {moment(story.due_at, story.now)} UTC."
        case "pending":
            return "The next free worker that handles it takes it."
        case "processing" if story.lease_until and story.lease_until < story.now:
            return "Its worker has given no sign for too long; the next sweep takes it back."
        case "processing":
            return "A worker has it in hand."
        case "failed":
            return "Nobody works on it until a person says so."
    if story.ending == "unhandled":
        return "No worker ever had a handler for it."
    return "Nothing more happens with it."


def order(story: Story) -> str:
    """What its last claim found among the events with its ordering key; "" when all before it had ended well."""
    before = f"event {story.passed_over} before it was set aside" if story.passed_over else ""
    later = f"event {story.overtaken_by} after it was done first" if story.overtaken_by else ""
    found = "; ".join(part for part in (before, later) if part)
    return found[:1].upper() + found[1:]


def _since(at: datetime | None, story: Story) -> str:
    return span(max(0.0, (story.now - (at or story.now)).total_seconds()))


# ── Step by step ──────────────────────────────────────────────────────────────────────────────────────


def steps(story: Story) -> list[Step]:
    """In the order of time; what happened at one instant in the order in which it is told here."""
    told = [*_arrivals(story), *_claims(story), *_sends(story), *_words(story), *_end(story)]
    return sorted(told, key=lambda step: step.at)


def _arrivals(story: Story) -> Iterator[Step]:
    yield Step(story.accepted_at, "waiting", "●", "Received and stored", story.source)
    duplicates = story.duplicates - sum(other.deliveries for other in story.conflicts)
    if duplicates > 0 and story.first_again_at and story.last_again_at:
        last = f", last {moment(story.last_again_at, story.now)}" if duplicates > 1 else ""
        words = f"{many(duplicates, 'duplicate')}{last}"
        if story.not_compared:
            words += f"; {story.not_compared:,} could not be compared, for the first content was gone"
        yield Step(story.first_again_at, "twin", "=", words)
    for other in story.conflicts:
        seen = ", marked as seen" if other.acknowledged_at else ""
        words = f"Same key, other content (conflict {other.id}{seen}); nothing was done with it"
        yield Step(other.first_seen_at, "twin", "≠", words)


def _claims(story: Story) -> Iterator[Step]:
    claims = sorted(story.claims, key=lambda claim: claim.claimed_at)
    before = story.accepted_at
    for claim in claims if len(claims) <= CLAIMS_SHOWN else [claims[0], *claims[1 - CLAIMS_SHOWN :]]:
        folded = len(claims) - CLAIMS_SHOWN if claim is not claims[0] and len(claims) > CLAIMS_SHOWN else 0
        if folded and claim is claims[1 - CLAIMS_SHOWN]:
            yield Step(
                claim.claimed_at, "waiting", "⋮", f"{many(folded, 'more try', 'more tries')} like these"
            )
        else:
            yield from _wait(before, claim.claimed_at)
        yield _claim(claim)
        before = claim.ended_at
    if story.claimed_at:
        yield from _wait(before, story.claimed_at)
        yield Step(story.claimed_at, "working", "▶", f"Try {story.attempts} began", story.worker or "")


def _wait(since: datetime, until: datetime) -> Iterator[Step]:
    waited_s = (until - since).total_seconds()
    if waited_s >= SHORT_S:
        yield Step(until, "waiting", "…", f"Waited {span(waited_s)}")


def _claim(claim: Claim) -> Step:
    words, tone, mark = CLAIM_ENDINGS[claim.ending]
    took = span(max(0.0, (claim.ended_at - claim.claimed_at).total_seconds()))
    told = words.format(n=claim.attempt, took=took) + (f": {claim.error}" if claim.error else "")
    return Step(claim.ended_at, tone, mark, told, claim.worker)


def _sends(story: Story) -> Iterator[Step]:
    kinds = {send.id: f"{what(send.kind)} {send.id}" for send in story.sends}
    providers = {send.id: provider(send.provider) for send in story.sends}
    for send in story.sends:
        again = f", generation {send.generation}" if send.generation > 1 else ""
        yield Step(send.created_at, "waiting", "○", f"{kinds[send.id]} was written down{again}")
    for one in story.tries:
        yield _try(one, kinds[one.action_id], providers[one.action_id])
    for seen in story.evidence:
        weight = " (proof)" if seen.proof else ""
        words = f"Evidence about {kinds[seen.action_id]}: {seen.found}{weight}"
        yield Step(seen.observed_at, "working", "◇", words, seen.source)


def _try(one: TryOf, kind: str, name: str) -> Step:
    words, tone, mark = TRY_ENDINGS[one.outcome]
    if one.outcome is None and one.abandoned_at:
        words, tone, mark = "was called, and the worker was stopped before the answer", "person", "?"
    who = "" if one.outcome == "refused" and one.code == UNSENDABLE else f"{name} "
    words = words if who else "not given to the provider"
    told = one.reason or one.code  # a code is for programs, so it stands in alone
    words = f"{kind}, try {one.number}: {who}{words}" + (f" ({told})" if told else "")
    return Step(one.answered_at or one.abandoned_at or one.started_at, tone, mark, words, one.worker)


def _words(story: Story) -> Iterator[Step]:
    for word in story.words:
        yield Step(word.at, "person", "◆", _word(word), word.who or "by the configured policy")


def _word(word: Word) -> str:
    about = (
        "" if word.entity == "event" else f" about {ENTITIES.get(word.entity, word.entity)} {word.entity_id}"
    )
    refused = "" if word.outcome == "done" else f", {word.outcome}"
    why = f" “{word.why}”" if word.why else ""
    return f"Decided{about}: {word.act}{refused}{why}"


def _end(story: Story) -> Iterator[Step]:
    if story.state == "completed" and story.ended_at:
        words, tone, mark = {
            "ignored": ("Ignored: its type is not worked on, by configuration", "waiting", "–"),
            "unhandled": ("Ended: nobody ever handled it", "person", "–"),
        }.get(story.ending or "", ("Done, together with its local changes", "done", "✓"))
        yield Step(story.ended_at, tone, mark, words)  # type: ignore[arg-type]
    elif story.state == "pending" and story.due_at and story.due_at > story.now:
        yield Step(story.due_at, "waiting", "…", "Its next try")
