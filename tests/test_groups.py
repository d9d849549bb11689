"""What is marked as a group runs in one process: a group that is not heard of costs its fixtures once a process."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("two")
@pytest.mark.parametrize("of", ["one", "other"])
def test_a_group_stands_behind_the_id_that_xdist_schedules_by(
    request: pytest.FixtureRequest, of: str
) -> None:
    if not hasattr(request.config, "workerinput"):
        pytest.skip("one process, nothing to schedule")
    assert request.node.nodeid.endswith(f"[{of}]@two")
