"""Tells the receiver what became of the e-mails that were accepted, as the providers would: signed, now and then late,
lost, or before the API's own answer. A post that fails is tried again, on a shortened schedule.

The habits are set by `PUT /sandbox/webhooks` with a JSON object; members that are left out stay as they are:

    mode        "on"; "off": nothing is posted any more; "hold": all is kept until `POST /sandbox/webhooks`
    early       the share of mails whose first webhook comes before the API's answer, 0 to 1
    late        the share of webhooks that come `late_s` seconds after what they tell
    lost        the share of webhooks that never come
    bounced     the share of mails that bounce
    complained  the share of delivered mails that somebody complains about
    pace        how fast messages travel: 1 is the demo's pace, 0 at once
    echo        send our labels along with AgentMail's events, which is not published of the real ones
    enabled     false: AgentMail has switched its endpoint off, as after five days of failures; nothing of it is posted
                any more, nor later
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from ledger.errors import LedgerError
from ledger.running import processes
from ledger.settings import Settings
from ledger.simulated import simulate
from worker.sandbox.statuses import spelled
from worker.sandbox.store import Mail

AGAIN_S = (1.0, 2.0, 4.0, 8.0)
EARLY_S = 1.0  # no longer does the API's answer wait for what should come before it
MODES = ("on", "off", "hold")
SHARES = ("early", "late", "lost", "bounced", "complained")
LENGTHS = ("late_s", "pace")
FLAGS = ("echo", "enabled")


@dataclass(frozen=True, slots=True)
class Habits:
    """How webhooks travel; the module says what each member does. The defaults are the demo's."""

    mode: Literal["on", "off", "hold"] = "on"
    early: float = 0.15
    late: float = 0.1
    late_s: float = 25.0
    lost: float = 0.06
    bounced: float = 0.05
    complained: float = 0.01
    pace: float = 1.0
    echo: bool = False
    enabled: bool = True


class NotAHabit(ValueError):
    """What was given is no habit; the message says what one is."""


def changed(habits: Habits, given: Any) -> Habits:
    """The habits with some members replaced. Raises NotAHabit."""
    names = {field.name for field in fields(Habits)}
    if not isinstance(given, dict) or set(given) - names:
        raise NotAHabit(f"Webhooks have {', '.join(sorted(names))}.")
    members = asdict(habits) | given
    if members["mode"] not in MODES or not all(isinstance(members[name], bool) for name in FLAGS):
        raise NotAHabit(f"mode is one of {', '.join(MODES)}; {' and '.join(FLAGS)} are true or false.")
    for name in (*SHARES, *LENGTHS):
        most = 1.0 if name in SHARES else 3600.0
        value = members[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise NotAHabit(f"{name} is a number from 0 to {most:g}.")
    return Habits(**members)


class Courier:
    """One for all providers; for one whose webhooks nobody takes in, it has nothing to do."""

    def __init__(self, settings: Settings, chance: Callable[[], float] = random.random) -> None:
        self.habits = Habits()
        self.counts: Counter[str] = Counter()
        self._settings, self._chance = settings, chance
        self._held: list[tuple[str, bytes]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def tell(self, mail: Mail) -> None:
        """Begin a mail's story; returns at once, except that what is early is posted first."""
        source = self._source(mail.provider)
        if source is None or self.habits.mode == "off":
            return
        early = self._chance() < self.habits.early
        for what, after_s in self._story(mail.provider):
            at = datetime.now(UTC) + timedelta(seconds=after_s)
            body = spelled(self._settings.sources[source], mail, what, at, echo=self.habits.echo)
            await self._send(source, body, 0.0 if early else after_s, now=early)
            early = False

    async def pass_on(self, provider: str, body: bytes) -> None:
        """Post an event that somebody made, as the others travel: it is begun at once, and not waited for."""
        source = self._source(provider)
        if source is not None and self.habits.mode != "off":
            await self._send(source, body, 0.0, now=False)

    def endpoints(self, provider: str) -> dict[str, str]:
        """Where the provider posts to, by source."""
        sources = [name for name, s in self._settings.sources.items() if s.kind == provider]
        port = self._settings.receiver_port
        return {name: processes.url(port, f"/webhooks/{name}") for name in sources}

    def shown(self) -> dict[str, Any]:
        return asdict(self.habits) | {"held": len(self._held), "counts": dict(self.counts)}

    async def release(self) -> None:
        """Post what is held, in its order."""
        held, self._held = self._held, []
        for source, body in held:
            await self._post(source, body)

    # ── How ───────────────────────────────────────────────────────────────────────────────────────────

    def _source(self, provider: str) -> str | None:
        return next((name for name, s in self._settings.sources.items() if s.kind == provider), None)

    def _story(self, provider: str) -> Iterator[tuple[str, float]]:
        """What becomes of a mail, and after how many seconds. Inboxili's article tells of the last two alone."""
        pace = self.habits.pace
        if provider == "agentmail":
            yield "sent", 0.1 * pace
        if self._chance() < self.habits.bounced:
            yield "bounced", random.uniform(1.0, 4.0) * pace
            return
        yield "delivered", random.uniform(0.4, 2.5) * pace
        if self._chance() < self.habits.complained:
            yield "complained", random.uniform(6.0, 20.0) * pace

    async def _send(self, source: str, body: bytes, after_s: float, *, now: bool) -> None:
        roll = self._chance()
        if self.habits.mode == "hold":
            self._held.append((source, body))
        elif roll < self.habits.lost:
            self.counts["lost"] += 1
        elif now:
            await asyncio.wait([self._begin(source, body, 0.0)], timeout=EARLY_S)
        else:
            is_late = roll < self.habits.lost + self.habits.late
            self._begin(source, body, after_s + (self.habits.late_s if is_late else 0.0))

    def _begin(self, source: str, body: bytes, wait_s: float) -> asyncio.Task[None]:
        task = asyncio.create_task(self._later(source, body, wait_s))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _later(self, source: str, body: bytes, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        await self._post(source, body)

    async def _post(self, source: str, body: bytes) -> None:
        if not self.habits.enabled and self._settings.sources[source].kind == "agentmail":
            self.counts["switched off"] += 1
            return
        delivery = simulate.delivery_id()
        for wait_s in (*AGAIN_S, None):
            try:
                status = await asyncio.to_thread(simulate.post, self._settings, source, body, delivery)
            except LedgerError:  # no receiver, or no secret
                status = 0
            if 200 <= status < 300:
                self.counts["posted"] += 1
                return
            if wait_s is not None:
                await asyncio.sleep(wait_s)
        self.counts["failed"] += 1
