"""One server for all tests; each test has a database of its own, with Acme's tables and nothing in them."""

from pathlib import Path

import pytest

from worker.trying import Trials


@pytest.fixture(scope="session")
def trials():
    with Trials(Path(__file__).parents[1] / "nottwice.toml") as made:
        yield made


@pytest.fixture
def trial(trials):
    with trials.new() as made:
        yield made
