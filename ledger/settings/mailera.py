"""`[providers.NAME.spelling]`: how Mailera's API spells what its article does not.

Known from the article: `POST /mailboxes/{id}/send` with `Idempotency-Key`, kept 24 h; a reference of the send, kept
by us; `GET /sends/{id}`, which answers queued, sending, sent, failed or unknown. All else here is assumed, and can be
said otherwise.
"""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import model_validator

from ledger.settings.types import Table, wrong

REQUEST = (
    *(
        "sender_path",
        "to_path",
        "cc_path",
        "bcc_path",
        "reply_to_path",
        "subject_path",
        "text_path",
        "html_path",
    ),
    *("in_reply_to_path", "reference_path"),
)
ANSWER = ("send_id_path", "status_path", "message_id_path", "code_path", "words_path")
NEEDED = ("to_path", "subject_path", "send_id_path")
FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2: token
OURS = frozenset(
    ("idempotency-key", "content-type", "content-length", "host", "transfer-encoding", "connection")
)
SAID = re.compile(r"[45][0-9]{2}(:[\x21-\x7e]{1,100})?")


class MaileraSpelling(Table):
    """A path is names with dots; "" where the API has no such thing: then what would stand there is not sent at all."""

    auth_header: str = "Authorization"
    auth_prefix: str = "Bearer "

    sender_path: str = "from"
    to_path: str = "to"
    cc_path: str = "cc"
    bcc_path: str = "bcc"
    reply_to_path: str = "reply_to"
    subject_path: str = "subject"
    text_path: str = "text"
    html_path: str = "html"
    in_reply_to_path: str = "in_reply_to"
    reference_path: str = "metadata.reference"  # our own mark

    send_id_path: str = "id"  # the reference of the send
    status_path: str = "status"
    message_id_path: str = ""  # left out: the reference of the send names the message
    code_path: str = "error.code"
    words_path: str = "error.message"

    # What says that a key is under way, and that it belongs to another request: "409", or "409:code".
    in_flight: tuple[str, ...] = ("409",)
    mismatch: tuple[str, ...] = ()
    look_up_by: Literal["send-id", "key"] = "send-id"  # what stands for {id} in GET /sends/{id}

    @model_validator(mode="after")
    def _is_spelled_well(self) -> Self:
        if not FIELD_NAME.fullmatch(self.auth_header) or self.auth_header.lower() in OURS:
            raise wrong("auth_header", "is no name of a header that can carry a key")
        if not (self.auth_prefix.isascii() and self.auth_prefix.isprintable()):
            raise wrong("auth_prefix", "is no beginning of a header's value")
        for name in (*REQUEST, *ANSWER):
            self._check_path(name)
        self._check_members()
        self._check_answers()
        return self

    def _check_path(self, name: str) -> None:
        path = getattr(self, name)
        if not path and name in NEEDED:
            raise wrong(name, "is empty; without it nothing can be sent, or known to be sent")
        if path and not all(path.split(".")):
            raise wrong(name, "has an empty part; write names with dots, as in error.code")

    def _check_members(self) -> None:
        """No member of the request stands where another one does, or inside it."""
        taken: dict[str, str] = {}
        for name in REQUEST:
            path = getattr(self, name)
            for other, its in taken.items():
                if path and (f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")):
                    raise wrong(name, f"stands where {its} does")
            if path:
                taken[path] = name

    def _check_answers(self) -> None:
        for name in ("in_flight", "mismatch"):
            for said in getattr(self, name):
                if not SAID.fullmatch(said):
                    raise wrong(
                        name, "is a list of statuses from 400, each alone or with a code: 409 or 409:code"
                    )
        if twice := set(self.in_flight) & set(self.mismatch):
            raise wrong("mismatch", f"has {min(twice)}, which in_flight has as well")
