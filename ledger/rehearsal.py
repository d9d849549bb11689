"""Before anything runs: each process is asked whether it could start, beside the making of the database.

A mistake in handlers or secrets would else be seen by the process itself, when others run already and webhooks have
been answered.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ledger.errors import Misconfigured, Unavailable
from ledger.processes import Service

REHEARSE = "--rehearse"  # an argument: check everything that a start needs but the database, and end
CANNOT_START = 2

Asked = tuple[Service, "subprocess.Popen[str]"]


@contextmanager
def asked(services: Sequence[Service], *, within_s: float) -> Iterator[Callable[[], None]]:
    """Begins to ask; what it gives waits for the answers.

    That raises Misconfigured with a process's own sentence, or Unavailable when one does not answer `within_s`.
    """
    running = [(service, _ask(service)) for service in services if service.rehearses]
    try:
        yield lambda: _answers(running, within_s)
    finally:
        for _, process in running:
            process.kill()
            process.communicate()


def _ask(service: Service) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*service.command, REHEARSE],
        env=dict(service.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # a Ctrl-C is the supervisor's
    )


def _answers(running: Sequence[Asked], within_s: float) -> None:
    for service, process in running:
        try:
            _, said = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            raise Unavailable(
                f"{service.name} did not say within {within_s:g} s whether it can start. Do its handlers wait while "
                "they are imported?"
            ) from None
        if process.returncode == CANNOT_START:
            lines = [line for line in said.splitlines() if line.strip()]
            raise Misconfigured(lines[-1].strip() if lines else f"{service.name} cannot start.")
