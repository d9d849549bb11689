"""The tables of the configuration file for our own processes. A name ends in its unit; a default says what it protects."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from ledger.records import Role
from ledger.settings.sign_in import ProxySettings, RolesSettings, SignInSettings, is_loopback
from ledger.settings.types import Count, Host, Name, Number, PositiveSeconds, Seconds, Table, wrong


class WorkerSettings(Table):
    """`[worker]`: the daemon. After `lease_s` without a sign of life its work is taken over."""

    handlers: str = ""  # the module that registers the user's handlers
    app_sql: str | None = None  # folder of the handlers' own SQL: a path, or package:folder
    lease_s: PositiveSeconds = 30.0
    sweep_s: PositiveSeconds = 5.0  # between two looks for expired leases
    grace_s: Seconds = 20.0  # what a stop leaves running handlers
    poll_s: PositiveSeconds = 0.1  # between two looks for due work, inside one statement
    patience_s: PositiveSeconds = 1.0  # how long that statement looks
    slots: Count = 10  # slow parts at once
    group_max: Count = 200  # apply parts in one transaction, which ends within a second
    run_s_max: PositiveSeconds = 300.0  # a handler that runs longer loses its lease
    send_slots: Count = 4
    send_retry_base_s: PositiveSeconds = 2.0  # a send waits up to this times 2, 4, 8 …, at most 10 min
    pause_s: PositiveSeconds = 30.0  # of an account, the first time, where its provider names no time
    retry_base_s: PositiveSeconds = 2.0
    attempts_max: Count = 5  # of an event; its first claim sets it, a person's retry adds to it
    decided_wait_s: Seconds = 15.0  # a send that a person decided can be taken back for this long
    look_slots: Count = 2  # look-ups at once
    look_waits_s: Annotated[tuple[PositiveSeconds, ...], Field(min_length=1)] = (5.0, 30.0, 120.0)
    endpoints_every_s: Seconds = 300.0  # between two questions whether our webhook endpoints are on; 0: never
    # since a doubt began: first, second … look-up; then every last one's time while evidence is waited for

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.sweep_s > self.lease_s:
            raise wrong("sweep_s", "is longer than lease_s; a lease that ended would wait for the sweep")
        return self


class ReceiverSettings(Table):
    """`[receiver]`: the front door."""

    host: Host = "127.0.0.1"
    processes: Count = 1  # of receivers that share the port
    reuse_port: bool = False  # several receivers, started apart, on one port; `processes` does without
    queue_max: Count = 5_000  # requests that wait to be stored; one more is answered 503
    lock_wait_s: PositiveSeconds = 0.25  # a key that is locked longer waits apart from the others
    side_lane_s: PositiveSeconds = 5.0  # for how long it then does
    side_wait_s: PositiveSeconds = 1.0  # how long one look at it there lasts
    body_bytes_max: Count = 5_000_000
    in_hand_bytes_max: Count = 24_000_000  # of all bodies at once; more is answered 503
    batch_bytes_max: Count = 4_000_000  # of one transaction
    batch_wait_s: Seconds = 0.003  # how long a request waits for others to be stored with
    batch_max: Count = 200
    answer_within_s: PositiveSeconds = 8.0  # then 503; sooner for senders known to hang up sooner
    writers: Count = 2
    beat_s: PositiveSeconds = 5.0  # between two signs of life; well below [alerts] worker_silent_s
    head_within_s: PositiveSeconds = 10.0  # for request line and headers; then the connection is closed
    grace_s: Seconds = 10.0

    @model_validator(mode="after")
    def _has_room_for_a_body(self) -> Self:
        """A body that never finds room is told 503, and sent again for days."""
        needed = -(-4 * self.body_bytes_max // 3)
        if self.in_hand_bytes_max < needed:
            name = "body_bytes_max" if "body_bytes_max" in self.model_fields_set else "in_hand_bytes_max"
            raise wrong(
                name,
                "does not fit: a quarter of in_hand_bytes_max is kept for small bodies, so a body of "
                f"{self.body_bytes_max} bytes needs an in_hand_bytes_max of {needed} or more",
            )
        return self


class PersonSettings(Table):
    """One entry of `[console] people`: who acts on this machine where nobody signs in."""

    name: Name
    email: str = ""
    role: Role


class ConsoleSettings(Table):
    """`[console]`: where it listens and how people come in. Without sign-in: on this machine only, as one of `people`."""

    host: Host = "127.0.0.1"
    people: tuple[PersonSettings, ...] = ()
    sign_in: SignInSettings | None = None
    proxy: ProxySettings | None = None
    roles: RolesSettings = RolesSettings()
    # How long a second person is waited for: 30 days at most, as the database holds it (sql/0041).
    request_expires_s: Annotated[float, Field(gt=0, le=2_592_000, allow_inf_nan=False)] = 14_400.0
    refresh_s: PositiveSeconds = 2.0
    second_person_above: Number = 50  # sends that one person decides together within an hour; more takes two

    @property
    def door(self) -> SignInSettings | ProxySettings | None:
        """How people come in; None where nobody signs in."""
        return self.sign_in or self.proxy

    @model_validator(mode="after")
    def _lets_nobody_in_unseen(self) -> Self:
        if self.sign_in and self.proxy:
            raise wrong(
                "proxy", "cannot stand beside [console.sign_in]: people come in by one way or the other"
            )
        if self.door is None and not is_loopback(self.host):
            raise wrong(
                "host",
                "reaches beyond this machine, and nobody signs in: whoever comes could act as anybody. Leave it out, "
                "or add [console.sign_in] or [console.proxy]",
            )
        if not self.host:
            raise wrong("host", "is empty; write 0.0.0.0 for every address of this machine, or leave it out")
        if self.door is None and self.roles != RolesSettings():
            raise wrong(
                "roles",
                "says as what people come in, and nobody signs in: it would mean nothing. Leave it out, "
                "or add [console.sign_in] or [console.proxy]",
            )
        if self.door and not (self.roles.emails or self.roles.groups or self.roles.domains):
            raise wrong(
                "roles", "gives nobody a role, so nobody could come in; name addresses, groups or domains"
            )
        if self.sign_in and not self.sign_in.verified_claim and (self.roles.emails or self.roles.domains):
            raise wrong(
                ("sign_in", "verified_claim"), "is empty, so no address gives a role; use groups alone"
            )
        return self


class DatabaseSettings(Table):
    """`[database]`: the pool of one process. `allow_unsafe` accepts fsync=off: for tests alone."""

    pool_size: Count = 5
    pool_wait_s: PositiveSeconds = 5.0
    connect_timeout_s: Count = 5
    silence_s: PositiveSeconds = (
        15.0  # a line over which nothing comes back for so long is given up as broken
    )
    direct: bool = (
        False  # no pooler on the way: the receiver's statements are prepared once, which saves it a fifth
    )
    allow_unsafe: bool = False


class ReprocessSettings(Table):
    """`[reprocess]`: events worked again and sends made again, at the pace that their run had when it was asked for."""

    pace_per_s: PositiveSeconds = 10.0  # rows begun in a second, beside everything else that is due
    under_way_max: Count = 20  # rows at once: what a cancelled run still finishes
    second_person_above: Number = 100  # events that one person asks for within an hour; more takes two


class SupervisorSettings(Table):
    """`[supervisor]`: what `nottwice up` and `nottwice demo` start, and how they treat it."""

    workers: Count = 2
    ready_within_s: PositiveSeconds = 60.0
    restart_base_s: PositiveSeconds = 0.5  # doubled with each crash
    restart_s_max: PositiveSeconds = 15.0
    settled_after_s: PositiveSeconds = 10.0  # a process that ran this long starts counting its crashes anew
    stop_within_s: PositiveSeconds = 35.0  # then what remains is killed; longer than all grace_s together
    log_bytes_max: Count = 10_000_000  # of one process; the one before is kept beside it
    kill_worker_every_s: Seconds = 0.0  # demo: kill -9 a worker this often, 0 = never
