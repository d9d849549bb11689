"""The tables of the configuration file. A name ends in its unit; a default says what it protects."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from ledger.records import Policy, Role

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Number = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
What = Literal["sent", "delivered", "bounced", "complained", "rejected"]

# AgentMail's documentation: a key is kept for 24 h after completion. Inboxili has no keys.
KEY_WINDOWS_S = {"agentmail": 86_400.0}
# Of a stop, for what comes after worker and receiver: a second each for console, sandbox and the way from one to the next.
STOP_AFTERWARDS_S = 3.0
URL_SAFE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
BODY_PATHS = ("key_path", "type_path", "time_path")
NOTICE_PATHS = ("message_path", "recipient_path", "reference_path")
# What only some kinds can be told; the others bring these facts along.
TAKES: dict[str, frozenset[str]] = {
    "generic": frozenset(
        (
            *("signature_header", "signature_prefix", "encoding", "timestamp_header", "delivery_header"),
            *("key_header", "key_with", "type_header", "type_constant", "signed", "timestamp_unit"),
            *BODY_PATHS,
        )
    ),
    "inboxili": frozenset(("notices", *BODY_PATHS, *NOTICE_PATHS)),
}
# Where the parts of a body stand, by kind, unless the table says otherwise. Inboxili does not publish its webhook's
# body: `message_id` is the word of its maker's article and of its API, `to` that of its API; the others are assumed.
ASSUMED_PATHS: dict[str, dict[str, str]] = {
    "inboxili": {
        "key_path": "id",
        "type_path": "type",
        "time_path": "timestamp",
        "message_path": "message_id",
        "recipient_path": "to",
    }
}
# Which types say what became of a message. AgentMail's: agentmail 2.0.18, events/types. Inboxili's article speaks of
# delivered and bounced webhooks; that these are the types' whole names, and the other two, is assumed.
NOTICE_TYPES: dict[str, dict[str, What]] = {
    "agentmail": {
        "message.sent": "sent",
        "message.delivered": "delivered",
        "message.bounced": "bounced",
        "message.complained": "complained",
        "message.rejected": "rejected",
    },
    "inboxili": {
        "sent": "sent",
        "delivered": "delivered",
        "bounced": "bounced",
        "complained": "complained",
    },
}


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceSettings(_Table):
    """`[sources.NAME]`: who may post to /webhooks/NAME, and how a logical event is recognised.

    `secrets` are names; several are valid at once while one is being replaced. A path is names with dots:
    `data.object.id`.
    """

    kind: Literal["agentmail", "generic", "inboxili"]
    namespace: Name = Field(default="", validate_default=False)
    secrets: tuple[Name, ...] = Field(min_length=1)
    success_status: Literal[200, 202, 204] | None = None
    ignored_types: tuple[str, ...] = ()
    ignored_members: tuple[str, ...] = ()  # differ between honest retries, so they are no conflict
    tolerance_s: Seconds = 300.0  # how old or how far ahead a signed timestamp may be

    signature_header: str = ""
    signature_prefix: str = ""
    encoding: Literal["hex", "base64"] = "hex"
    signed: str = (
        ""  # what the signature covers, of {timestamp} and {body}; by default one or both, with a dot
    )
    timestamp_header: str = ""
    timestamp_unit: Literal["s", "ms"] = "s"
    delivery_header: str = ""
    key_header: str = ""
    key_path: str = ""
    key_with: tuple[Name, ...] = ()  # further paths, where one alone does not make the key
    type_header: str = ""
    type_path: str = ""
    type_constant: str = ""
    time_path: str = ""

    # What becomes of messages we sent: through which [providers.NAME] they went, and where the parts stand.
    provider: str = ""
    notices: dict[Name, What] = {}  # what each type means, where it is not as its kind is known for
    message_path: str = ""
    recipient_path: str = ""
    reference_path: str = ""  # our own mark, where the provider sends it back

    def path(self, name: str) -> str:
        """One of the paths: as the table says, else as its kind is known for; "" when there is none."""
        if name in self.model_fields_set:
            return str(getattr(self, name))
        return ASSUMED_PATHS.get(self.kind, {}).get(name, "")

    @property
    def notice_types(self) -> dict[str, What]:
        """The types that say what became of a message we sent."""
        return self.notices or NOTICE_TYPES.get(self.kind, {})

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        for name in sorted(self.model_fields_set - TAKES.get(self.kind, frozenset())):
            if takers := [kind for kind, names in TAKES.items() if name in names]:
                what = f"a source of kind {self.kind} has its own rules; only kind {' and '.join(takers)} takes it"
                raise _wrong(name, what)
        if self.kind == "generic":
            self._names_its_key()
        if self.kind in ASSUMED_PATHS:
            self._finds_its_events()
        return self

    def _names_its_key(self) -> None:
        if not self.signature_header:
            raise _wrong(
                "signature_header", 'is missing; a generic source names the header, as in "X-Signature"'
            )
        if bool(self.key_header) == bool(self.key_path):
            raise _wrong(
                "key_path", "a generic source has either key_header or key_path, which finds the event's key"
            )

    def _finds_its_events(self) -> None:
        if not self.path("type_path"):
            raise _wrong("type_path", "is empty; without a type no event can be told from another")
        if not (self.path("key_path") or self.path("message_path")):
            raise _wrong("key_path", "is empty, and so is message_path; one of them makes the event's key")
        for name in (*BODY_PATHS, *NOTICE_PATHS):
            if self.path(name) and not all(self.path(name).split(".")):
                raise _wrong(name, "has an empty part; write names with dots, as in data.object.id")


class ProviderSettings(_Table):
    """`[providers.NAME]`: through whom actions go out. `key` is the name of a secret.

    `window_s` is how long the provider keeps an idempotency key; left out, what its kind is known for. In its
    last `margin_s` the key is not used any more: the margin covers one call's `timeout_s`, one lease, and clocks
    that run apart.
    """

    kind: Literal["agentmail", "inboxili"]
    base_url: str = ""
    key: Name
    account: str = ""
    window_s: PositiveSeconds | None = None
    margin_s: Seconds = 900.0
    timeout_s: PositiveSeconds = 30.0
    log_url: str = ""  # where a person finds the provider's own log


class ActionSettings(_Table):
    """`[actions.KIND]`: by which provider a kind goes, and what happens when nobody can know.

    `cost` and `cost_reason` are what a second e-mail of this kind would do, in the review desk's words.
    """

    provider: Name
    policy: Policy = Policy.REVIEW
    approval: bool = False
    evidence_s: Seconds = 300.0
    retry_for_s: PositiveSeconds = 86_400.0
    cost: Literal["high", "medium", "low"] = "high"
    cost_reason: str = ""


class WorkerSettings(_Table):
    """`[worker]`: the daemon. After `lease_s` without a sign of life its work is taken over."""

    handlers: str = ""  # the module that registers the user's handlers
    app_sql: str | None = None  # folder of the handlers' own SQL: a path, or package:folder
    lease_s: PositiveSeconds = 30.0
    sweep_s: PositiveSeconds = 5.0  # between two looks for expired leases
    grace_s: Seconds = 20.0  # what a stop leaves running handlers
    poll_s: PositiveSeconds = 0.1  # between two looks for due work, inside one statement
    patience_s: PositiveSeconds = 1.0  # how long that statement looks
    slots: Count = 10  # slow parts at once
    group_max: Count = 50  # apply parts in one transaction
    run_s_max: PositiveSeconds = 300.0  # a handler that runs longer loses its lease
    send_slots: Count = 4
    retry_base_s: PositiveSeconds = 2.0
    attempts_max: Count = 5  # of an event; its first claim sets it, a person's retry adds to it
    decided_wait_s: Seconds = 15.0  # a send that a person decided can be taken back for this long
    look_slots: Count = 2  # look-ups at once
    look_waits_s: Annotated[tuple[PositiveSeconds, ...], Field(min_length=1)] = (5.0, 30.0, 120.0)
    # since a doubt began: first, second … look-up; then every last one's time while evidence is waited for

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.sweep_s > self.lease_s:
            raise _wrong("sweep_s", "is longer than lease_s; a lease that ended would wait for the sweep")
        return self


class ReceiverSettings(_Table):
    """`[receiver]`: the front door."""

    host: str = "127.0.0.1"
    reuse_port: bool = False  # several receivers on one port
    queue_max: Count = 5_000  # requests that wait to be stored; one more is answered 503
    lock_wait_s: PositiveSeconds = 0.25  # a key that is locked longer waits apart from the others
    side_lane_s: PositiveSeconds = 5.0  # for how long it then does
    side_wait_s: PositiveSeconds = 1.0  # how long one look at it there lasts
    body_bytes_max: Count = 5_000_000
    in_hand_bytes_max: Count = 200_000_000  # of all bodies at once; more is answered 503
    batch_bytes_max: Count = 8_000_000  # of one transaction
    batch_wait_s: Seconds = 0.003  # how long a request waits for others to be stored with
    batch_max: Count = 200
    answer_within_s: PositiveSeconds = 8.0  # then 503; the strictest provider hangs up after 10 s
    writers: Count = 2
    beat_s: PositiveSeconds = 5.0  # between two signs of life; well below [alerts] worker_silent_s
    head_within_s: PositiveSeconds = 10.0  # for request line and headers; then the connection is closed
    grace_s: Seconds = 10.0


class PersonSettings(_Table):
    """One entry of `[console] people`: who acts on this machine where nobody signs in."""

    name: Name
    email: str = ""
    role: Role


class ConsoleSettings(_Table):
    """`[console]`: the people who act without sign-in, on loopback only."""

    people: tuple[PersonSettings, ...] = ()
    request_expires_s: PositiveSeconds = 14_400.0  # how long a second person is waited for
    refresh_s: PositiveSeconds = 2.0


class DatabaseSettings(_Table):
    """`[database]`: the pool of one process. `allow_unsafe` accepts fsync=off: for tests alone."""

    pool_size: Count = 5
    pool_wait_s: PositiveSeconds = 5.0
    connect_timeout_s: Count = 5
    allow_unsafe: bool = False


class SupervisorSettings(_Table):
    """`[supervisor]`: what `nottwice up` and `nottwice demo` start, and how they treat it."""

    workers: Count = 2
    ready_within_s: PositiveSeconds = 60.0
    restart_base_s: PositiveSeconds = 0.5  # doubled with each crash
    restart_s_max: PositiveSeconds = 15.0
    settled_after_s: PositiveSeconds = 10.0  # a process that ran this long starts counting its crashes anew
    stop_within_s: PositiveSeconds = 35.0  # then what remains is killed; longer than all grace_s together
    log_bytes_max: Count = 10_000_000  # of one process; the one before is kept beside it
    kill_worker_every_s: Seconds = 0.0  # demo: kill -9 a worker this often, 0 = never


class AlertSettings(_Table):
    """`[alerts]`: from when `nottwice check` calls something late, and how many of a thing are still in order."""

    pending_s: PositiveSeconds = 300.0  # due work and sends
    unsettled_s: PositiveSeconds = 3600.0  # what waits for a person
    worker_silent_s: PositiveSeconds = 60.0
    lease_over_s: Seconds = 30.0  # how long after its end a lease may wait for the sweep
    unsealed_s: PositiveSeconds = 60.0
    critical_times: Annotated[float, Field(ge=1, allow_inf_nan=False)] = (
        5.0  # what is this often over its limit
    )
    failed_max: Number = 0
    unhandled_max: Number = 0
    conflicts_max: Number = 0
    quarantined_max: Number = 0
    refused_max: Number = 10  # requests of one source, for one reason, in an hour


class RetentionSettings(_Table):
    """`[retention]`: how long finished rows keep what."""

    event_keys_days: PositiveSeconds = 31.0
    event_bodies_days: PositiveSeconds = 7.0
    action_contents_days: PositiveSeconds = 30.0
    action_keys_days: PositiveSeconds = 400.0


class Tables(_Table):
    """The whole file."""

    sources: dict[Name, SourceSettings] = {}
    providers: dict[Name, ProviderSettings] = {}
    actions: dict[Name, ActionSettings] = {}
    worker: WorkerSettings = WorkerSettings()
    receiver: ReceiverSettings = ReceiverSettings()
    console: ConsoleSettings = ConsoleSettings()
    database: DatabaseSettings = DatabaseSettings()
    supervisor: SupervisorSettings = SupervisorSettings()
    alerts: AlertSettings = AlertSettings()
    retention: RetentionSettings = RetentionSettings()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name, source in self.sources.items():
            if not URL_SAFE.fullmatch(name):
                raise _wrong(("sources", name), "stands in an address: use letters, digits, - and _")
            if source.provider and source.provider not in self.providers:
                known = ", ".join(self.providers) or "none"
                raise _wrong(
                    ("sources", name, "provider"),
                    f"there is no [providers.{source.provider}]; known are: {known}",
                )
        for kind, action in self.actions.items():
            if action.provider not in self.providers:
                known = ", ".join(self.providers) or "none"
                raise _wrong(
                    ("actions", kind, "provider"),
                    f"there is no [providers.{action.provider}]; known are: {known}",
                )
        for name, provider in self.providers.items():
            needed = provider.timeout_s + self.worker.lease_s
            if provider.window_s is not None and provider.margin_s < needed:
                raise _wrong(
                    ("providers", name, "margin_s"),
                    f"is {provider.margin_s:g}; it must cover timeout_s and a lease, together {needed:g}",
                )
        return self

    @model_validator(mode="after")
    def _leaves_time_to_stop(self) -> Self:
        """Workers end before the receiver does: what the supervisor waits must hold both, else it kills them in it."""
        needed = self.worker.grace_s + self.receiver.grace_s + STOP_AFTERWARDS_S
        if self.supervisor.stop_within_s < needed:
            said = [n for n in ("worker", "receiver") if "grace_s" in getattr(self, n).model_fields_set]
            raise _wrong(
                (said[0], "grace_s") if said else ("supervisor", "stop_within_s"),
                f"does not fit: [supervisor] stop_within_s is {self.supervisor.stop_within_s:g} and must cover "
                f"[worker] grace_s, [receiver] grace_s and {STOP_AFTERWARDS_S:g} s for the rest, together {needed:g}",
            )
        return self


def _wrong(name: str | tuple[str, ...], what: str) -> PydanticCustomError:
    """An error that says which name inside the table it is about."""
    inner = (name,) if isinstance(name, str) else name
    return PydanticCustomError("wrong", "{what}", {"what": what, "inner": inner})
