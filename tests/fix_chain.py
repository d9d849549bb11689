"""The fixture `chain`: real processes in a home of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.failures.house import House


@pytest.fixture
def chain(tmp_path: Path, database_url: str) -> Iterator[House]:
    opened = House(tmp_path, database_url)
    yield opened
    opened.close()
