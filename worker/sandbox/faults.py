"""The sandbox's fault switches: what happens to the next answers instead of a plain acceptance.

A fault is a JSON object. All members are optional; unknown ones are refused.

    provider             "agentmail", "inboxili", "mailera" or "smtp"; "" (the default): any
    at                   of SMTP: the step that it strikes: connect, hello, tls, sign-in, mail, rcpt, data, body (after 354) or
                         dot (the default)
    reads                strikes questions (what is listed, one message, the endpoints) instead of sends
    match                only requests whose path or body contains this text
    count                how many requests it strikes: 1 by default; null: until it is deleted
    rate                 the chance that it strikes a request, 0 to 1; 1 by default. With `rate`, count is null by default
    delay_s              seconds between the request and its end
    status               answer with this status. Nothing is accepted, unless it is a 2xx or `accept` is true
    code                 the error's word, as in {"status": 422, "code": "send_failed"}
    body                 the answer's body: a text goes out as it is (as HTML), anything else as JSON
    headers              further headers of the answer
    retry_after          the header Retry-After, in any spelling
    cut                  close the connection without a byte of an answer. Nothing is accepted, unless `accept` is true
    accept               accept and record the e-mail before `status`, `cut` or `silence` happen
    silence              no answer; closes when the caller gives up, or after `silence_s` (30). Accepts nothing by itself
    accept_then_silence  the two together: accepted, recorded, and then no answer
    state, then          of Mailera: what its answer calls the send (queued, sending, sent, failed, unknown), and what a
                         later look at it does. Accepted, unless one of them is "failed" or `accept` is false

While `delay_s` passes an accepted request is under way: its key answers 409 to everybody else. With several faults
the first that fits strikes, and only it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from worker.sandbox.sends import STATES

PROVIDERS = ("", "agentmail", "inboxili", "mailera", "smtp")
STEPS = ("connect", "hello", "tls", "sign-in", "mail", "rcpt", "data", "body", "dot")


@dataclass(slots=True)
class Fault:
    """One armed fault. `accept` None: as its end says."""

    provider: str = ""
    at: str = "dot"
    reads: bool = False
    match: str = ""
    count: int | None = 1
    rate: float = 1.0
    delay_s: float = 0.0
    status: int = 0
    code: str = ""
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    retry_after: str = ""
    cut: bool = False
    accept: bool | None = None
    silence: bool = False
    accept_then_silence: bool = False
    silence_s: float = 30.0
    state: str = ""
    then: str = ""

    @property
    def accepts(self) -> bool:
        if self.accept is not None or self.accept_then_silence:
            return bool(self.accept) or self.accept_then_silence
        return (
            not (self.cut or self.silence) and self.status < 300 and "failed" not in (self.state, self.then)
        )

    @property
    def is_dealt_with(self) -> bool:
        """Whether the request reaches what remembers keys, be it accepted or not."""
        return self.accepts or bool(self.state)

    @property
    def is_silent(self) -> bool:
        return self.silence or self.accept_then_silence

    def fits(self, provider: str, path: str, body: bytes, *, reads: bool, at: str) -> bool:
        if self.provider not in ("", provider) or self.reads != reads or self.at != at:
            return False
        return not self.match or self.match in path or self.match.encode() in body


class NotAFault(ValueError):
    """What was given is no fault; the message says what one is."""


class Faults:
    """The armed faults, in order. `chance` gives a number in [0, 1)."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self.armed: list[Fault] = []
        self._chance, self._lock = chance, threading.Lock()

    def take(
        self, provider: str, path: str, body: bytes, *, reads: bool = False, at: str = "dot"
    ) -> Fault | None:
        """The fault that strikes this request; one strike of it is used up."""
        with self._lock:
            for fault in self.armed:
                if fault.fits(provider, path, body, reads=reads, at=at) and (
                    fault.rate >= 1 or self._chance() < fault.rate
                ):
                    self._use_up(fault)
                    return fault
        return None

    def _use_up(self, fault: Fault) -> None:
        if fault.count is not None:
            fault.count -= 1
            self.armed = [f for f in self.armed if f.count is None or f.count > 0]


def parse(given: Any) -> list[Fault]:
    """The faults of a request's body: one object, a list of them, or {"faults": [...]}. Raises NotAFault."""
    if isinstance(given, Mapping) and set(given) == {"faults"}:
        given = given["faults"]
    return [_fault(one) for one in (given if isinstance(given, list) else [given])]


def _fault(given: Any) -> Fault:
    if not isinstance(given, Mapping):
        raise NotAFault(f"A fault is a JSON object, and this is none: {given!r}.")
    unknown = set(given) - {f.name for f in fields(Fault)}
    if unknown:
        raise NotAFault(f"A fault has no {', '.join(sorted(unknown))}; it has {_names()}.")
    members = dict(given)
    if members.get("provider") is None:
        members["provider"] = ""
    if "rate" in members:
        members.setdefault("count", None)
    _check(members)
    if members.get("at", "dot") != "dot" and members["provider"] != "smtp":
        raise NotAFault("Only a fault of provider smtp strikes at a step.")
    return Fault(**members)


CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "provider": (lambda v: v in PROVIDERS, "one of agentmail, inboxili, mailera, smtp, or nothing"),
    "at": (lambda v: v in STEPS, f"one of {', '.join(STEPS)}"),
    "reads": (lambda v: isinstance(v, bool), "true or false"),
    "match": (lambda v: isinstance(v, str), "a text"),
    "count": (
        lambda v: v is None or (_is_number(v) and v == int(v) and v >= 1),
        "a whole number from 1, or null",
    ),
    "rate": (lambda v: _is_number(v) and 0 <= v <= 1, "a number from 0 to 1"),
    "delay_s": (lambda v: _is_number(v) and v >= 0, "seconds"),
    "status": (lambda v: isinstance(v, int) and (v == 0 or 200 <= v <= 599), "a status from 200 to 599"),
    "code": (lambda v: isinstance(v, str), "a text"),
    "headers": (
        lambda v: isinstance(v, dict) and all(isinstance(x, str) for x in v.values()),
        "an object of texts",
    ),
    "retry_after": (lambda v: isinstance(v, str), "a text, as it stands in the header"),
    "cut": (lambda v: isinstance(v, bool), "true or false"),
    "accept": (lambda v: v is None or isinstance(v, bool), "true or false"),
    "silence": (lambda v: isinstance(v, bool), "true or false"),
    "accept_then_silence": (lambda v: isinstance(v, bool), "true or false"),
    "silence_s": (lambda v: _is_number(v) and v >= 0, "seconds"),
    "state": (lambda v: v in STATES, f"one of {', '.join(STATES)}"),
    "then": (lambda v: v in STATES, f"one of {', '.join(STATES)}"),
}


def _check(members: Mapping[str, Any]) -> None:
    for name, value in members.items():
        fits, wanted = CHECKS.get(name, (lambda _: True, ""))
        if not fits(value):
            raise NotAFault(f"A fault's {name} is {wanted}, not {value!r}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names() -> str:
    return ", ".join(f.name for f in fields(Fault))


def shown(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    """The members that differ from a plain answer, for GET."""
    plain = Fault()
    return [
        {
            f.name: v
            for f in fields(Fault)
            if (v := getattr(one, f.name)) != getattr(plain, f.name) or f.name == "count"
        }
        for one in faults
    ]
