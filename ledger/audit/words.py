"""What somebody types to choose entries, and what the command line says of them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

from ledger.audit.check import Kept
from ledger.audit.choice import ENTITIES, OUTCOMES, POLICY, Chosen
from ledger.database import Transaction
from ledger.errors import Misconfigured
from ledger.terminal import DIGITS_MAX, plain
from ledger.views.audit import Entry

T = TypeVar("T")
NOBODY = "policy"


def chosen(
    tx: Transaction, *, person: str, act: str, about: str, outcome: str, since: str, until: str
) -> Chosen:
    """What was typed, as a choice. Raises Misconfigured, which says what may stand there."""
    entity, _, number = about.partition(":")
    begin, end = span(since, until)
    return Chosen(
        person=_person(tx, person) if person else None,
        act=act or None,
        entity=_known(entity, ENTITIES, "--about") if about else None,
        entity_id=_number(number, about) if number else None,
        outcome=_known(outcome, OUTCOMES, "--outcome") if outcome else None,
        since=begin,
        until=end,
    )


def span(since: str, until: str) -> tuple[datetime | None, datetime | None]:
    """From `--since` on and before `--until`. Raises Misconfigured where one is no time, or nothing can be between them."""
    begin, end = moment(since, "--since"), moment(until, "--until", end_of_day=True)
    if begin and end and begin >= end:
        raise Misconfigured(f"--since {since} is not before --until {until}, so nothing can fit.")
    return begin, end


def moment(text: str, option: str, *, end_of_day: bool = False) -> datetime | None:
    """`2026-11-30` or `2026-11-30T09:41`, in UTC unless it says otherwise; a day at its end where asked for."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Misconfigured(
            f"{option} {plain(text, 40)} is no time. Write 2026-11-30 or 2026-11-30T09:41 (UTC)."
        ) from None
    whole_day = end_of_day and _is_day(text)
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return at + timedelta(days=1) if whole_day else at


def kept_seal(text: str) -> Kept | None:
    """`20914:3fa9…`, a seal as `verify` says it. Raises Misconfigured."""
    if not text:
        return None
    number, _, digits = text.partition(":")
    try:
        seal = bytes.fromhex(digits)
        if number.isdecimal() and len(number) <= DIGITS_MAX and int(number) > 0 and len(seal) == 32:
            return int(number), seal
    except ValueError:
        pass
    raise Misconfigured("--kept is NUMBER:SEAL, as an earlier `nottwice audit verify` said it.")


def line(entry: Entry) -> str:
    """One entry as a line: no words of anybody's break it or steer a terminal."""
    about = f" ({plain(entry.about, 60)})" if entry.about.strip() else ""
    said = [f"{entry.outcome}: {entry.detail}" if entry.outcome != "done" else "", entry.why]
    why = " · ".join(plain(part, 120) for part in said if part)
    return (
        f"{entry.id}  {entry.at.astimezone(UTC):%Y-%m-%d %H:%M:%S}  {plain(entry.who, 40) or NOBODY}  "
        f"{plain(entry.act, 60)}  {entry.entity} {entry.entity_id}{about}  {why}"
    ).rstrip()


def _person(tx: Transaction, typed: str) -> int:
    if typed == NOBODY:
        return POLICY
    rows = tx.all(
        "SELECT id FROM nottwice.people WHERE lower(email) = lower(:t) OR (email = '' AND lower(name) = lower(:t))",
        t=typed.strip(),
    )
    if len(rows) != 1:
        known = "nobody" if not rows else "more than one person"
        raise Misconfigured(
            f"--person {plain(typed, 80)} is {known} on record. Give an e-mail address, or `policy`."
        )
    return int(rows[0].id)


def _known(typed: str, known: tuple[T, ...], option: str) -> T:
    for one in known:
        if one == typed:
            return one
    raise Misconfigured(f"{option} {plain(typed, 40)} is not known. One of: {', '.join(map(str, known))}.")


def _number(digits: str, typed: str) -> int:
    if digits.isascii() and digits.isdecimal() and len(digits) <= DIGITS_MAX:
        return int(digits)
    raise Misconfigured(
        f"--about {plain(typed, 40)} has no number behind its colon. Write action:17, or action."
    )


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
