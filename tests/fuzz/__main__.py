"""`make fuzz`: hundreds of thousands of requests to a real receiver, and documents to each adapter; exit code 1 when one breaks.

`make fuzz INPUTS=5000 SEED=7` is shorter, or one that was before.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from ledger import schema
from ledger.database import Database
from ledger.embedded import Cluster
from ledger.settings import Settings, load
from tests.conftest import FAST
from tests.fix_receiver import Receiver, starter
from tests.fuzz import adapters
from tests.fuzz.campaign import Broken, Campaign, shown
from tests.fuzz.deliveries import CONFIG
from tests.ports import free_ports

INPUTS = 220_000
SHARE_OF_ADAPTERS = 10  # one example of an adapter for so many requests


def main() -> int:
    given = argparse.ArgumentParser(prog="make fuzz")
    given.add_argument("--inputs", type=int, default=INPUTS)
    given.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    wanted = given.parse_args()
    say(f"{wanted.inputs:,} inputs with seed {wanted.seed}")
    try:
        with house() as (receiver, settings, database):
            examples = wanted.inputs // SHARE_OF_ADAPTERS
            fuzz(Campaign(receiver, settings, database, wanted.seed), wanted.inputs - examples)
            say(f"adapters: {adapters.check(settings, examples):,} documents, each source its share")
    except (Broken, AssertionError) as broken:
        say(f"BROKEN with seed {wanted.seed}: {broken}")
        return 1
    return 0


def fuzz(campaign: Campaign, inputs: int) -> None:
    began = time.monotonic()

    def tell(sent: int) -> None:
        rate = sent / (time.monotonic() - began)
        say(
            f"{sent:>9,} of {inputs:,}   {rate:,.0f}/s   {campaign.peak_bytes / 1e6:.0f} MB   {campaign.counts}"
        )

    campaign.run(inputs, tell)
    say(*shown(campaign.answers))
    say(
        f"requests: {inputs:,} in {time.monotonic() - began:.0f} s; the receiver held {campaign.peak_bytes / 1e6:.0f} MB at most"
    )


@contextmanager
def house() -> Iterator[tuple[Receiver, Settings, Database]]:
    """A server of its own with an empty ledger, and a receiver with every kind of source."""
    home = Path(tempfile.mkdtemp(prefix="nottwice-fuzz-", dir="/tmp"))
    home.chmod(0o711)  # the server's user must get through
    server = Cluster(home, settings=FAST)
    try:
        server.ensure()
        schema.migrate(server.url())
        login = sa.make_url(server.url()).set(username="nottwice_receiver")
        database = Database(server.url(), pool_size=1)
        with starter(home, login.render_as_string(hide_password=False), free_ports) as start:
            receiver = start(CONFIG)
            os.environ |= {
                name: v for name, v in receiver.environment.items() if name.startswith("NOTTWICE_")
            }
            yield receiver, load(), database
        database.close()
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
