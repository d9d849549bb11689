"""`python -m tests.benchmarks [NAME …]`: one JSON object a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable

from tests.benchmarks.accept import accept
from tests.benchmarks.claim_flat import claim_flat
from tests.benchmarks.console import console_10m
from tests.benchmarks.drain import drain, drain_effect
from tests.benchmarks.fairness import fairness
from tests.benchmarks.held import held_transaction
from tests.benchmarks.idle import idle
from tests.benchmarks.knocks import Missing
from tests.benchmarks.outage import outage
from tests.benchmarks.pickup import pickup
from tests.benchmarks.prune import prune
from tests.benchmarks.recovery import recovery
from tests.benchmarks.report import say
from tests.benchmarks.stage import Stage

Lines = Iterable[dict[str, object]]
BENCHES: dict[str, Callable[[Stage], dict[str, object] | Lines]] = {
    "accept": accept,
    "drain": drain,
    "drain-effect": drain_effect,
    "claim-flat": claim_flat,
    "held-transaction": held_transaction,
    "recovery": recovery,
    "pickup": pickup,
    "idle": idle,
    "fairness": fairness,
    "prune": prune,
    "outage": outage,
    "console-10m": console_10m,
}


def main(names: list[str]) -> int:
    if unknown := set(names) - set(BENCHES):
        say(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}.")
        return 2
    stage = Stage()
    try:
        for name in names or BENCHES:
            found = BENCHES[name](stage)
            for line in [found] if isinstance(found, dict) else found:
                print(json.dumps(line), flush=True)
    except Missing as error:
        say(str(error))
        return 2
    finally:
        stage.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
