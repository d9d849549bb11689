"""Every error the ledger raises on purpose. Each message says what happened, what it means, what to do.

LedgerError
├── Misconfigured            the configuration or the machine; the process stops with exit code 2
│   └── WrongSchema          the database's schema is older or newer than this code
├── Unavailable              the database cannot be reached or did not answer in time; try again
├── TooSlow                  a read for a screen took longer than people wait and was stopped; ask for less
├── LeaseLost                somebody else holds the claim now; the whole transaction is rolled back
│   └── MayNotStart          the claim is ours, but the call may no longer be made (with the reason)
│       └── Held             … because the ledger was restored or copied, and nobody has released it
├── CallInsideTransaction    a provider call or a slow part was about to run inside a transaction
├── EndsTransaction          code that was lent a transaction tried to begin or to end it
├── NotInTransaction         an application handed over what has no transaction of its own to propose in
├── ContentTooBig            a body or a rendered request is over its limit
├── UnusableKey              an action was proposed without what its key is made of
├── Unproposable             an action was proposed that could never be stored, or never go out
├── Unstorable               a text that was handed to the ledger holds what no database and no e-mail can hold
├── NotAdmitted              a person may not come in; the message says why, in words for them
│   └── SignInEnded          … any more: the sign-in is over
└── Declined                 a person's act cannot be carried out; nothing was changed
    ├── NotAllowed           the person's role may not do this
    ├── Stale                the row changed since the person looked
    ├── AlreadyDecided       somebody (or the same click) was first; says who, what and when
    ├── NotNow               not possible in this state or before a named time
    └── Incomplete           what must be said with a decision was not said
"""

from __future__ import annotations

from datetime import datetime


class LedgerError(Exception):
    """Base of all errors that are part of the ledger's contract."""


class Misconfigured(LedgerError):
    """The configuration or the machine does not allow a start."""


class WrongSchema(Misconfigured):
    """The database's schema is not the one this code was written for."""


class Unavailable(LedgerError):
    """The database cannot be reached or did not answer in time. Nothing is known to be wrong with the data."""


class TooSlow(LedgerError):
    """A read took longer than its limit and was stopped. Nothing is wrong; a narrower question is answered."""


class LeaseLost(LedgerError):
    """The claim token is not the row's any more. Whoever catches this has changed nothing."""


class MayNotStart(LeaseLost):
    """The external call must not be made now; the reason is in words."""


class Held(MayNotStart):
    """Nothing at all may be sent: the ledger is not where it was."""


class CallInsideTransaction(LedgerError):
    """A network or model call was about to run while a transaction is open. Always a fault in our code."""


class EndsTransaction(LedgerError):
    """Code inside a transaction that it was lent, such as a handler's apply part, tried to end it. It was not ended."""


class NotInTransaction(LedgerError, TypeError):
    """An application's connection commits by itself, or is none that we can work on. Nothing was done with it."""


class ContentTooBig(LedgerError):
    """What should be stored is over its configured limit."""


class NotAdmitted(LedgerError):
    """A person may not come in. The message is for them, and holds no word of theirs."""


class SignInEnded(NotAdmitted):
    """The sign-in is over; `at` says since when."""

    def __init__(self, at: datetime) -> None:
        super().__init__(f"Your sign-in ended at {at:%H:%M} UTC. Sign in again.")
        self.at = at


class Unstorable(LedgerError, ValueError):
    """A text holds NUL or a lone surrogate. Nothing was written; the message names the field, never its text."""


class UnusableKey(LedgerError, ValueError):
    """An action was proposed without what its kind's key is made of. Nothing was written."""


class Unproposable(LedgerError, ValueError, TypeError):
    """An action was proposed that could never be stored, or never go out. Nothing was written; its key stays free."""


class Declined(LedgerError):
    """A person's act was not carried out. Nothing changed, except that the audit notes the try."""


class NotAllowed(Declined):
    """The person's role may not do this."""


class Stale(Declined):
    """The row changed since the person looked at it."""


class AlreadyDecided(Declined):
    """The decision was made already. Says by whom, what and when, so that the console can tell the loser."""

    def __init__(self, message: str, *, who: str, what: str, at: datetime, same_form: bool = False) -> None:
        super().__init__(message)
        self.who = who
        self.what = what
        self.at = at
        self.same_form = same_form


class NotNow(Declined):
    """Not possible in this state, or not before a named time."""


class Incomplete(Declined):
    """A reason or what the person looked at is missing."""
