"""Before anything runs: each process is asked whether it could start, and with what in its configuration it could not.

A mistake in handlers, options or secrets would else be seen by the process itself, when others run already and
webhooks have been answered. `nottwice check` asks too, so that a file that the next start refuses is known before it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from ledger.errors import Misconfigured, Unavailable
from ledger.running.processes import Service

REHEARSE = "--rehearse"  # an argument: check everything that a start needs but the database, and end
CANNOT_START = 2
SAYS = (
    "nottwice "  # how a process's own sentences begin; what handlers print as they are imported is not theirs
)


def refuse_mistakes(services: Sequence[Service], *, within_s: float) -> None:
    """Raises Misconfigured with all that the processes say, a line each, and what `mistakes` raises."""
    if found := mistakes(services, within_s=within_s):
        raise Misconfigured("\n".join(found))


def mistakes(services: Sequence[Service], *, within_s: float) -> list[str]:
    """The sentences of those that could not start. Raises Unavailable when one does not answer `within_s`."""
    running = [(service, _ask(service)) for service in services if service.rehearses]
    try:
        return [what for service, process in running for what in _answer(service, process, within_s)]
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


def _answer(service: Service, process: subprocess.Popen[str], within_s: float) -> list[str]:
    try:
        _, said = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"{service.name} did not say within {within_s:g} s whether it can start. Do its handlers wait while "
            "they are imported?"
        ) from None
    if process.returncode != CANNOT_START:
        return []
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    sentences = [line.partition(": ")[2] for line in lines if line.startswith(SAYS)]
    return sentences or lines[-1:] or [f"{service.name} cannot start."]
