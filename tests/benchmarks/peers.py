"""The other queues, in a process and a virtual environment of their own: `peers.py QUEUE URL WHAT NUMBER`.

WHAT is `drain` or `drain-effect` (NUMBER jobs, of which the second kind inserts one row each), `pickup` (NUMBER jobs,
one at a time into an idle worker) or `idle` (a worker without jobs for NUMBER seconds). Prints one JSON object.
Settings are the best each one's own documentation names; neither fences a completion, nor commits it with the row.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

CONNECTIONS = 16
INSERT = "INSERT INTO effects VALUES ({})"


class Queue(ABC):
    """One peer: its tables made, jobs stored, a worker running them. `seen` grows by a job's number when it runs."""

    def __init__(self, url: str, *, effect: bool) -> None:
        self.url, self.effect = url, effect
        self.seen: dict[int, float] = {}
        self.changed = asyncio.Event()

    def note(self, number: int) -> None:
        self.seen[number] = time.perf_counter()
        self.changed.set()

    @abstractmethod
    def opened(self) -> Any:
        """A context in which the rest may be called."""

    @abstractmethod
    async def put(self, number: int) -> None: ...

    @abstractmethod
    async def drain(self) -> None:
        """Run all that is there, then return."""

    @abstractmethod
    async def serve(self) -> None:
        """Run for ever."""


class PgQueuer(Queue):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        import asyncpg
        from pgqueuer.db import AsyncpgPoolDriver
        from pgqueuer.qm import QueueManager
        from pgqueuer.queries import Queries

        async with asyncpg.create_pool(self.url, min_size=CONNECTIONS, max_size=CONNECTIONS + 4) as pool:
            self.queries = Queries(AsyncpgPoolDriver(pool))
            await self.queries.install()
            await pool.execute("CREATE TABLE effects (key text PRIMARY KEY)")
            self.manager = QueueManager(self.queries)

            @self.manager.entrypoint("job")
            async def job(given: Any) -> None:
                if self.effect:
                    await pool.execute(INSERT.format("$1"), given.payload.decode())
                self.note(int(given.payload))

            yield

    async def put(self, number: int) -> None:
        await self.queries.enqueue(["job"], [str(number).encode()], [0], dedupe_key=[str(number)])

    async def drain(self) -> None:
        from pgqueuer.types import QueueExecutionMode

        await self.manager.run(batch_size=100, mode=QueueExecutionMode.drain)

    async def serve(self) -> None:
        await self.manager.run()


class Procrastinate(Queue):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        import procrastinate

        connector = procrastinate.PsycopgConnector(
            conninfo=self.url, min_size=CONNECTIONS, max_size=CONNECTIONS + 4
        )
        self.app = procrastinate.App(connector=connector)

        @self.app.task(name="job")
        async def job(number: int) -> None:
            if self.effect:
                await connector.execute_query_async(INSERT.format("%(key)s"), key=str(number))
            self.note(number)

        self.job = job
        async with self.app.open_async():
            await self.app.schema_manager.apply_schema_async()
            await connector.execute_query_async("CREATE TABLE effects (key text PRIMARY KEY)")
            yield

    async def put(self, number: int) -> None:
        await self.job.configure(queueing_lock=str(number)).defer_async(number=number)

    async def drain(self) -> None:
        await self._run(wait=False, listen_notify=False)

    async def serve(self) -> None:
        await self._run(wait=True, listen_notify=True)

    async def _run(self, **how: bool) -> None:
        await self.app.run_worker_async(concurrency=CONNECTIONS, install_signal_handlers=False, **how)


QUEUES: dict[str, type[Queue]] = {"PgQueuer": PgQueuer, "Procrastinate": Procrastinate}


async def drain(queue: Queue, number: int) -> dict[str, float]:
    """Jobs a second, from the worker's start to its last job."""
    numbers = iter(range(number))

    async def caller() -> None:
        for one in numbers:
            await queue.put(one)

    await asyncio.gather(*(caller() for _ in range(CONNECTIONS)))
    started = time.perf_counter()
    await queue.drain()
    assert len(queue.seen) == number, f"{len(queue.seen)} of {number} ran"
    return {"per_s": number / (max(queue.seen.values()) - started)}


async def pickup(queue: Queue, number: int) -> dict[str, Any]:
    """Seconds from the commit of each job to the beginning of its work."""
    waited = []
    for one in range(-3, number):  # the first few find a worker that is still starting
        await asyncio.sleep(random.uniform(0.05, 0.35))
        queue.changed.clear()
        await queue.put(one)
        stored = time.perf_counter()
        while one not in queue.seen:
            await asyncio.wait_for(queue.changed.wait(), 60)
            queue.changed.clear()
        waited.append(max(0.0, queue.seen[one] - stored))
    return {"waited_s": waited[3:]}


async def idle(_: Queue, number: int) -> dict[str, float]:
    """Processor seconds a second."""
    await asyncio.sleep(3)
    started, used = time.perf_counter(), time.process_time()
    await asyncio.sleep(number)
    return {"cores": (time.process_time() - used) / (time.perf_counter() - started)}


async def run(queue: Queue, what: str, number: int) -> dict[str, Any]:
    async with queue.opened():
        if what.startswith("drain"):
            return await drain(queue, number)
        look: Callable[[Queue, int], Awaitable[dict[str, Any]]] = {"pickup": pickup, "idle": idle}[what]
        worker = asyncio.create_task(queue.serve())
        try:
            return await look(queue, number)
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)


def main() -> None:
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser()
    parser.add_argument("queue", choices=QUEUES)
    parser.add_argument("url")
    parser.add_argument("what", choices=("drain", "drain-effect", "pickup", "idle"))
    parser.add_argument("number", type=int)
    given = parser.parse_args()
    queue = QUEUES[given.queue](given.url, effect=given.what == "drain-effect")
    print(json.dumps(asyncio.run(run(queue, given.what, given.number))))


if __name__ == "__main__":
    main()
