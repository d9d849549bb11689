"""Every boundary of a process with the world: each statement, each COMMIT and ROLLBACK, each step of a provider call.

Installed in a process under test, it sees what psycopg and sockets are asked for, whoever asks: nothing is listed by
hand. A boundary is known by the road to it, which is the same in every run: what its transaction (or its connection
to a provider) has done so far, and whether rows were found. At one of them the process can be struck by a signal.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from hashlib import blake2b
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus

from ledger.database.line import Line
from ledger.database.sent_ahead import SentAhead

SHOWN_MAX = 90
ENDS = ("COMMIT", "ROLLBACK")
STEPS = ("connect", "send", "sendall", "recv", "recv_into")
Roads = WeakKeyDictionary[Any, str]


@dataclass(frozen=True, slots=True)
class Boundary:
    """`road` names it; `text` is the statement or step alone, whatever led to it."""

    road: str
    text: str
    when: str  # before or after
    what: str  # for people
    by: str = field(default="", compare=False)  # the thread that met it first

    def __str__(self) -> str:
        return f"{self.when} {self.what}"


UNSEEN = "an exchange that no boundary stands for"
NO_EXCHANGE = "_set_"  # generators of psycopg that change its own mind alone: the isolation of what comes


class Observer:
    """Tells `heard` of each boundary once, and at `struck` sends `number` to its own process.

    A statement that reaches the database by another way than those that are watched is told of as UNSEEN.
    """

    def __init__(self, heard: Callable[[Boundary], None], struck: str = "", number: int = 0) -> None:
        self._heard, self._struck, self._number = heard, struck, number
        self._known: set[str] = set()
        self._roads: Roads = WeakKeyDictionary()
        self._last: Roads = WeakKeyDictionary()
        self._calls: Roads = WeakKeyDictionary()
        self._lock, self._here = threading.Lock(), threading.local()

    def install(self) -> None:
        """From now on, in this process. There is no way back."""
        for name in ("execute", "executemany", "stream", "copy"):
            self._watch(psycopg.Cursor, name, lambda cursor, *args: self._statement(cursor, args[0]))
        for name in ("commit", "rollback"):
            self._watch(psycopg.Connection, name, lambda line, *_, name=name: self._end(line, name.upper()))
        for name, word in (("__enter__", "BEGIN"), ("__exit__", "END")):
            self._watch(
                psycopg.Transaction, name, lambda own, *_, word=word: self._word(own.connection, word)
            )
        self._watch(SentAhead, "send", lambda ahead, words, _: self._sent(ahead, words))
        self._watch(SentAhead, "wait_for_all", lambda ahead: self._word(ahead.driver, "WAIT FOR ALL"))
        self._watch(Line, "put", lambda line, one: self._put(line, " ".join(one.sql.split())))
        self._watch(Line, "tell", self._told)
        for step in STEPS:
            self._watch(socket.socket, step, lambda sock, *args, step=step: self._step(sock, step, args))
        self._guard(psycopg.Connection)
        self._guard(psycopg.AsyncConnection)

    def _watch(self, owner: type, name: str, between: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        @wraps(original)
        def watched(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(self._here, "inside", False):  # what a watched one is made of
                return original(self_, *args, **kwargs)
            with between(self_, *args), self._inside():
                return original(self_, *args, **kwargs)

        setattr(owner, name, watched)

    def _guard(self, owner: type) -> None:
        original = owner.wait  # type: ignore[attr-defined]

        def guarded(self_: Any, exchange: Any, *args: Any, **kwargs: Any) -> Any:
            known = getattr(self._here, "inside", False) or exchange.__name__.startswith(NO_EXCHANGE)
            if not known:
                self._pass(Boundary(UNSEEN, UNSEEN, "before", f"{UNSEEN}: {exchange!r}"))
            return original(self_, exchange, *args, **kwargs)

        owner.wait = guarded  # type: ignore[attr-defined]

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._here.inside = True
        try:
            yield
        finally:
            self._here.inside = False

    # -- one kind each ------------------------------------------------------------------------------------

    @contextmanager
    def _statement(self, cursor: Any, query: Any) -> Iterator[None]:
        line, text = cursor.connection, " ".join(str(query).split())
        road, self._last[line] = self._roads.get(line, ""), text
        self._meet(road, text, "before")
        try:
            yield
        finally:
            found = _found(cursor)
            self._roads[line] = self._meet(road, text, "after", found)
            self._forget_outside(line)

    @contextmanager
    def _sent(self, ahead: SentAhead, words: Any) -> Iterator[None]:
        """What it will find is not known yet."""
        line, text = ahead.driver, " ".join(str(words).split())
        road, self._last[line] = self._roads.get(line, ""), text
        self._meet(road, text, "before")
        try:
            yield
        finally:
            self._roads[line] = self._meet(road, text, "after", "sent")

    @contextmanager
    def _put(self, line: Line, text: str) -> Iterator[None]:
        """Sent from an event loop: what is after it is after the answer, which comes for all that was sent with it."""
        road, last = self._roads.get(line, ""), self._last.get(line, "nothing")
        self._last[line] = f"{text} after {last}" if text in ENDS else text
        self._roads[line] = self._meet(road, self._last[line], "before")
        yield

    @contextmanager
    def _told(self, line: Line) -> Iterator[None]:
        yield
        last = self._last.get(line, "nothing")
        self._roads[line] = self._meet(self._roads.get(line, ""), last, "after")
        if last.startswith(ENDS):
            del self._roads[line], self._last[line]

    @contextmanager
    def _end(self, line: Any, word: str) -> Iterator[None]:
        if line.info.transaction_status is TransactionStatus.IDLE:  # nothing is sent
            yield
            return
        with self._word(line, word):
            yield

    @contextmanager
    def _word(self, line: Any, word: str) -> Iterator[None]:
        """A COMMIT is told from others by the statement that it follows."""
        road, text = self._roads.get(line, ""), f"{word} after {self._last.get(line, 'nothing')}"
        self._meet(road, text, "before")
        try:
            yield
        finally:
            self._roads[line] = self._meet(road, text, "after")
            self._forget_outside(line)

    @contextmanager
    def _step(self, sock: Any, step: str, args: tuple[Any, ...]) -> Iterator[None]:
        if step == "connect" and isinstance(args[0], tuple):
            self._calls[sock] = ""
        road = self._calls.get(sock)
        if road is None:  # not a call of ours
            yield
            return
        text = "recv" if step.startswith("recv") else step
        self._meet(road, text, "before")
        try:
            yield
        finally:
            came = self._meet(road, text, "after")
            # How many pieces an answer comes in is chance: all of them are one step.
            self._calls[sock] = road if text == "recv" else came

    def _forget_outside(self, line: Any) -> None:
        is_idle = line.info.transaction_status is TransactionStatus.IDLE and not line.pgconn.pipeline_status
        if line.closed or is_idle:
            self._roads.pop(line, None)
            self._last.pop(line, None)

    # -- all kinds ----------------------------------------------------------------------------------------

    def _meet(self, road: str, text: str, when: str, found: str = "") -> str:
        come = digest(road, text, when, found)
        if come not in self._known:
            self._pass(Boundary(come, digest(text), when, shown(text), threading.current_thread().name))
        return come

    def _pass(self, boundary: Boundary) -> None:
        with self._lock:
            is_new = boundary.road not in self._known
            self._known.add(boundary.road)
        if is_new:
            self._heard(boundary)
        if is_new and boundary.road == self._struck:
            # To this thread, so that it goes no step further while the process is being stopped.
            signal.pthread_kill(threading.get_ident(), self._number)


def _found(cursor: Any) -> str:
    return "found" if cursor.rowcount > 0 else "nothing"


@lru_cache(maxsize=1024)
def digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def shown(text: str) -> str:
    return re.sub(r"[^ -~]", "?", text[:SHOWN_MAX])


class Ledger:
    """The boundaries that a process met, and what it said meanwhile: a line each, whole, so that a kill tears none."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def open(self) -> None:
        self._end = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def met(self, boundary: Boundary) -> None:
        told = (boundary.road, boundary.text, boundary.when, boundary.what, boundary.by)
        os.write(self._end, json.dumps(told).encode() + b"\n")

    def said(self, note: str) -> None:
        os.write(self._end, json.dumps({"said": note}).encode() + b"\n")

    def read(self, *, since: str = "") -> list[Boundary]:
        """All of them, or those that came after a note. A line that is being written while we look is not told yet."""
        written = self._file.read_bytes() if self._file.exists() else b""
        *lines, _unfinished = written.split(b"\n")
        told = [json.loads(line) for line in lines]
        begin = told.index({"said": since}) if since else 0
        return [Boundary(*one) for one in told[begin:] if "said" not in one]


def void(_: object) -> None:
    """Nothing comes of it."""
