"""`[providers.NAME]` of the configuration file, and what is known of each kind that others than its file read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Self
from urllib.parse import quote, urlsplit

from pydantic import Field, model_validator

from ledger.provider_facts import FACTS
from ledger.settings.addresses import is_api, is_loopback, is_page, is_smtp, normal
from ledger.settings.mailera import MaileraSpelling
from ledger.settings.types import Count, Name, PositiveSeconds, Seconds, Table, wrong

Kind = Literal["agentmail", "inboxili", "mailera", "smtp"]
# As they write themselves; an own name in the configuration is shown as it is.
LABELS = {kind: facts.label for kind, facts in FACTS.items()}
KEY_WINDOWS_S = {kind: facts.key_window_s for kind, facts in FACTS.items() if facts.key_window_s is not None}
# RFC 5321, 4.5.3.2.6: at least 10 min after the final dot, for a shorter wait makes sends that nobody knows about.
TIMEOUTS_S = {"smtp": 660.0}
SMTP_PORTS = {"starttls": 587, "tls": 465, "plain": 25}
# What only one kind can be told.
OF_ONE_KIND = {
    "endpoints": "agentmail",
    "spelling": "mailera",
    **dict.fromkeys(("security", "user", "helo", "step_s", "unencrypted"), "smtp"),
}
# What of a send its address at the provider's log may hold, so that nobody carries it over by hand.
LOG_BLANKS = re.compile(r"\{([^{}]*)\}")
LOG_NAMES = ("subject", "recipient")
LOG_CHARACTERS_MAX = 200  # of each: a log is searched for a part of it
HELO = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Za-z.:]+\]", re.ASCII)


class ProviderSettings(Table):
    """`[providers.NAME]`: through whom actions go out. `key` is the name of a secret.

    `window_s` is how long the provider keeps an idempotency key; left out, what its kind is known for. In its
    last `margin_s` the key is not used any more: the margin covers one call's `timeout_s`, one lease, and clocks
    that run apart. Of one account a worker makes `sends_at_once` calls at once; left out, as many as leave each other
    account one of [worker] send_slots.
    """

    kind: Kind
    base_url: str = ""
    key: str = Field(default="", max_length=200)
    account: str = ""
    window_s: PositiveSeconds | None = None
    margin_s: Seconds = 900.0
    timeout_s: PositiveSeconds = 30.0
    sends_at_once: Count | None = None
    log_url: str = (
        ""  # where a person finds the provider's own log; {subject} and {recipient} stand for a send's
    )
    # Ids of the webhook endpoints that lead to us, where their addresses do not tell:
    endpoints: tuple[Name, ...] = ()
    spelling: MaileraSpelling = MaileraSpelling()

    security: Literal["starttls", "tls", "plain"] = "starttls"
    user: str = ""  # with the password that `key` names; left out: no sign-in
    helo: str = ""  # how we introduce ourselves; left out: by the connection's own address
    step_s: PositiveSeconds = 60.0  # for each answer up to the final dot: being late there sends nothing
    unencrypted: bool = False  # `security = "plain"` beyond this machine, knowingly

    @property
    def server(self) -> tuple[str, int]:
        """Host and port of a mail server."""
        parts = urlsplit(self.base_url)
        return parts.hostname or "", parts.port or SMTP_PORTS[self.security]

    @property
    def place(self) -> str:
        """The kind and the address, in one spelling: where an account is. Its keys protect nothing anywhere else."""
        port = self.server[1] if self.kind == "smtp" else None
        return f"{self.kind} {normal(self.base_url or FACTS[self.kind].address, port)}"

    def log_of(self, subject: str, recipient: str) -> str:
        """The provider's own log, looking for one send where its address has a place for it; "" where none is configured."""
        given = {"subject": subject, "recipient": recipient}
        return LOG_BLANKS.sub(lambda m: quote(given[m[1]][:LOG_CHARACTERS_MAX], safe=""), self.log_url)

    @property
    def look_s(self) -> float:
        """How long a question about a send may take there."""
        return self.timeout_s if FACTS[self.kind].can_be_asked else 0.0

    @model_validator(mode="after")
    def _is_of_its_kind(self) -> Self:
        for name in self.model_fields_set & OF_ONE_KIND.keys():
            if OF_ONE_KIND[name] != self.kind:
                raise wrong(name, f"is not for kind {self.kind}; kind {OF_ONE_KIND[name]} takes it")
        self._keeps_keys_so_long()
        if self.account != self.account.strip():
            raise wrong(
                "account", "is blank, or begins or ends with a blank; write its name, or leave it out"
            )
        if self.log_url and not is_page(self.log_url):
            raise wrong("log_url", "is no page that a person can open; write it as https://host/path")
        for name in LOG_BLANKS.findall(self.log_url):
            if name not in LOG_NAMES:
                raise wrong(
                    "log_url", f"has no {{{name}}}; of a send it may name {{subject}} and {{recipient}}"
                )
        if not self.key and (self.kind != "smtp" or self.user):
            raise wrong("key", "is missing")
        if self.kind == "mailera" and not self.base_url:
            raise wrong("base_url", "is missing; Mailera does not publish one, so yours must be named")
        if self.kind == "smtp":
            self._is_a_mail_server()
        elif self.base_url and not is_api(self.base_url):
            raise wrong(
                "base_url", "is no address of an API; write it as https://host, with a path if need be"
            )
        return self

    def _keeps_keys_so_long(self) -> None:
        if self.window_s is None:
            return
        known_s = KEY_WINDOWS_S.get(self.kind)
        if known_s is None:
            raise wrong("window_s", f"is not for kind {self.kind}, which has no idempotency keys")
        if self.window_s > known_s:
            said = f"{LABELS[self.kind]} keeps a key for {known_s:g} s"
            raise wrong("window_s", f"is {self.window_s:g}; {said}, and after that a repeat is a second copy")

    def _is_a_mail_server(self) -> None:
        if self.key and not self.user:
            raise wrong("user", "is missing, and the password that `key` names is for nobody")
        if self.helo and not HELO.fullmatch(self.helo):
            raise wrong("helo", "is no name of a host, and no address in brackets")
        if not is_smtp(self.base_url):
            raise wrong("base_url", "is no mail server; write it as smtp://host or smtp://host:587")
        if self.security == "plain" and not (self.unencrypted or is_loopback(self.server[0])):
            raise wrong(
                "security",
                "is plain, which sends password and letters readable over the network; use starttls or tls, or say "
                "`unencrypted = true` where the way is safe otherwise",
            )
        if "step_s" in self.model_fields_set and self.step_s > self.timeout_s:
            raise wrong("step_s", f"is {self.step_s:g}; the whole call has {self.timeout_s:g} (timeout_s)")


def known(kind: Any) -> Mapping[str, float]:
    """What a table of this kind says when it is left out there."""
    tables = {"window_s": KEY_WINDOWS_S, "timeout_s": TIMEOUTS_S}
    return {
        name: of_kind[kind] for name, of_kind in tables.items() if isinstance(kind, str) and kind in of_kind
    }


def refuse_shared_accounts(providers: Mapping[str, ProviderSettings]) -> None:
    """An account is at one place: two of one name would share pauses, limits and the protection of keys that they have not."""
    first: dict[str, str] = {}
    for name, provider in providers.items():
        other = first.setdefault(provider.account or name, name)
        if providers[other].place != provider.place:
            raise wrong(
                ("providers", name, "account"),
                f"is the account of [providers.{other}] too, which is of another kind or at another address; "
                "name another account",
            )
