"""`python -m worker.sandbox.truth`: what really became of the demo's uncertain sends, beside what people decided.

The sandbox's own log is the truth: what it accepted went out, whatever we came to know of it. For judging a person, or a
page, after the decisions; whoever decides should not look here first.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ledger.awake import visit
from ledger.database import Transaction
from ledger.errors import LedgerError
from ledger.evidence.message_ids import meeting_key
from ledger.records import Role
from ledger.settings import Settings, load
from ledger.terminal import plain, tell

Mailed = tuple[str, tuple[str, ...], str]  # provider, recipients, subject

# Those that wait, and those of which a person has said the last word.
SENDS = """
SELECT a.id, a.kind, a.about, a.state, a.provider, c.recipients, c.subject,
       ARRAY(SELECT m.message_id FROM nottwice.messages m WHERE m.action_id = a.id) AS messages,
       coalesce(u.act, '') AS act, coalesce(p.name, '') AS who
FROM nottwice.actions a JOIN nottwice.action_contents c ON c.action_id = a.id
LEFT JOIN LATERAL (SELECT act, person_id FROM nottwice.audit WHERE entity = 'action' AND entity_id = a.id AND outcome = 'done'
                   AND person_id IS NOT NULL AND state_after IS NOT NULL AND act NOT LIKE 'asked %' ORDER BY id DESC LIMIT 1) u ON true
LEFT JOIN nottwice.people p ON p.id = u.person_id
WHERE a.state = 'needs_review' OR u.act IS NOT NULL ORDER BY a.id
"""


@dataclass(frozen=True, slots=True)
class Judged:
    """One send: how often it went out, and whether the decision fits that; None while it waits."""

    line: str
    is_right: bool | None


def judged(sends: Sequence[Any], mails: Sequence[dict[str, Any]]) -> list[Judged]:
    """`mails` are those of GET /sandbox/mails.

    A mail that the provider's own answer ties to one send is that send's alone; every other one counts, by its head, for
    those sends that have none of their own: of two generations with one head, neither is booked on the other.
    """
    owners = {(send.provider, meeting_key(one)): send.id for send in sends for one in send.messages}
    owned = Counter(owners.get(_number(mail)) for mail in mails)
    others = Counter(_head(mail) for mail in mails if _number(mail) not in owners)
    without = {_head_of(send) for send in sends if not send.messages}

    def times(send: Any) -> int:
        counts = not send.messages or _head_of(send) not in without
        return owned[send.id] + (others[_head_of(send)] if counts else 0)

    return [_judged(send, times(send)) for send in sends]


def _number(mail: dict[str, Any]) -> tuple[str, str]:
    return mail["provider"], meeting_key(mail["message_id"])


def _head(mail: dict[str, Any]) -> Mailed:
    return mail["provider"], tuple(mail["recipients"]), mail["subject"]


def _head_of(send: Any) -> Mailed:
    return send.provider, tuple(send.recipients), send.subject


def _judged(send: Any, times: int) -> Judged:
    went = {0: "did not go out", 1: "went out once"}.get(times, f"went out {times} times")
    named = f"{send.id}  {plain(send.kind, 30)}, {plain(send.about, 60)}: {went}."
    if send.state == "needs_review":
        return Judged(f"{named} It waits.", None)
    if send.state in ("approved", "sending"):
        return Judged(f"{named} It is on its way.", None)
    is_right = times == (0 if send.state in ("closed", "declined") else 1)
    return Judged(f"{named} {plain(send.who, 60)}: {send.act}. {'Right' if is_right else 'WRONG'}.", is_right)


def _read(tx: Transaction) -> list[Any]:
    return list(tx.all(SENDS))


def _mails(settings: Settings) -> list[dict[str, Any]]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{settings.sandbox_port}/sandbox/mails", timeout=10) as answer:
        return list(json.load(answer))


HOUSE = (
    "Name the demo's house to it as to any command, and the sandbox's port where it is not 8090: "
    "NOTTWICE_HOME=... NOTTWICE_SANDBOX_PORT=... python -m worker.sandbox.truth"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line a send. 0 when it could be told, 2 when not, or for an argument; there are none but --help."""
    about = str(__doc__).partition(": ")[2]
    argparse.ArgumentParser("python -m worker.sandbox.truth", description=about, epilog=HOUSE).parse_args(
        arguments
    )
    try:
        settings = load()
        with visit(settings) as database:
            found = judged(database.run(_read, role=Role.AUDITOR), _mails(settings))
    except (LedgerError, OSError) as error:
        sys.stderr.write(f"truth: {error}\n{HOUSE}\n")
        return 2
    right = Counter(one.is_right for one in found)
    for one in found:
        tell(one.line)
    tell(
        f"{right[True] + right[False]} decided: {right[True]} right, {right[False]} wrong. {right[None]} open."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
