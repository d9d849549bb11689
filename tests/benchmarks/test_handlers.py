"""What the benchmarks hand to a worker is what a worker starts with: a refusal is seen before anybody measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.settings import load as load_settings
from tests.benchmarks import drain, fairness, outage, pickup, stage
from worker.loading import load

OF = {
    "drain": (stage.CONFIGURATION, drain.HANDLERS.format(body=drain.EMPTY)),
    "drain_effect": (stage.CONFIGURATION, drain.HANDLERS.format(body=drain.EFFECT)),
    "fairness": (fairness.WORKER, fairness.HANDLERS),
    "outage": (stage.CONFIGURATION + outage.PROVIDER.format(port=1), drain.HANDLERS.format(body=drain.EMPTY)),
    "pickup": (stage.CONFIGURATION, pickup.HANDLERS.format(path="seen")),
}


@pytest.mark.parametrize("bench", OF)
def test_a_worker_would_start_with_it(bench: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration, handlers = OF[bench]
    name = f"bench_handlers_of_{bench}"  # an import is for good
    (tmp_path / f"{name}.py").write_text(handlers)
    (tmp_path / "nottwice.toml").write_text(configuration.replace("bench_handlers", name))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load(load_settings(tmp_path / "nottwice.toml")).kinds
