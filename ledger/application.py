"""What an application may do in its own transaction, beside its own rows: propose what is to go out.

    from ledger.application import propose
    from ledger.settings import load

    SETTINGS = load()

    with connection.transaction():                       # yours, on a psycopg or SQLAlchemy connection of yours
        connection.execute("INSERT INTO users …")
        propose(connection, "welcome", f"welcome:{user}", Email(…), namespace="acme", settings=SETTINGS)

The login needs the role `nottwice_application` and nothing else of ours: it may propose; it can read no content and no
recipient, and change nothing that stands. No provider is called and no provider's key is needed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ledger import actions
from ledger.action_keys import KeyValues
from ledger.database import Transaction
from ledger.database.borrowed import borrowed
from ledger.errors import Unproposable
from ledger.records import Email, Proposal, Proposed
from ledger.settings import Settings


def propose(
    connection: object,
    kind: str,
    key: str | KeyValues,
    content: Email | Mapping[str, Any],
    *,
    namespace: str,
    settings: Settings,
    recipients: tuple[str, ...] = (),
    about: str = "",
    event_id: int | None = None,
    at: datetime | None = None,
    send_before: datetime | None = None,
) -> Proposed:
    """Store an action once per (namespace, key), whoever proposes it first: this application, another one, a handler.

    `key` is the action key; for a kind that spells its keys, the values they are made of. `at`, a time with its zone, is
    when that happened which it is about: a kind that goes out once in a period needs it. From `send_before` on it is not sent any
    more, if its kind does not end sooner. `event_id`: the event it is for.

    It works in the transaction that is open on `connection`, commits nothing, and is undone with it, or with the savepoint
    it was made under. Somebody who proposes the same key at the same moment is waited for until they commit or roll back.
    In READ COMMITTED the one that stands is then returned; in REPEATABLE READ and SERIALIZABLE PostgreSQL raises 40001
    instead, and your transaction has to begin anew, as after any other such error.

    Raises NotInTransaction for a connection that commits by itself, Misconfigured for a kind that is not clear or a
    namespace nearly like a configured one, Unproposable for an e-mail that can never go out and an event that there is
    not, and what `proposals.propose` raises; none of these has touched the transaction. Errors of the database are those of your
    own driver.
    """
    tx = borrowed(connection)
    settings.refuse_near_namespace(namespace)
    proposal = Proposal.of(
        namespace,
        key,
        settings.rules(kind),
        content,
        recipients=recipients,
        about=about,
        event_id=event_id,
        at=at,
        send_before=send_before,
    )
    _refuse_unknown_event(tx, event_id)
    return actions.propose(tx, proposal)


def _refuse_unknown_event(tx: Transaction, event_id: int | None) -> None:
    """Before the foreign key does it, because that would end the application's transaction."""
    if event_id is None:
        return
    if not isinstance(event_id, int) or not 0 < event_id < 2**63:
        raise Unproposable("event_id of a proposed action is no event's number. Nothing was proposed.")
    if not tx.one("SELECT nottwice.has_event(CAST(:id AS bigint)) AS found", id=event_id).found:
        raise Unproposable(
            f"There is no event {event_id}, or it is not kept any more. Propose without event_id; nothing was proposed."
        )
