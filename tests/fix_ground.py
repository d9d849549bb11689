"""The fixture `ground`: where many processes are struck; made once for all tests of its group (see the mark)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

if TYPE_CHECKING:
    from tests.databases import Databases
    from tests.failures.boundaries import Boundary
    from tests.failures.ground import Ground


@pytest.fixture(scope="session")
def ground(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    from tests.failures.ground import Ground

    with databases.lent() as url:
        logins = {
            life: sa.make_url(url).set(username=f"nottwice_{life}").render_as_string(hide_password=False)
            for life in ("worker", "receiver")
        }
        opened = Ground(tmp_path_factory.mktemp("ground"), url, logins)
        yield opened
        opened.close()
        opened.database.close()


@pytest.fixture(scope="session")
def of_a_send(ground: Ground) -> dict[str, list[Boundary]]:
    """The boundaries of a worker's life, by the sender of its e-mail.

    Without a key from the claim of the action on: what is ahead of it knows no provider.
    """
    from tests.failures.counting import counted, roads

    keyed, keyless = (counted(lambda s=sender: ground.worked(s)) for sender in ("keyed", "keyless"))  # type: ignore[misc]
    return {
        "keyed": roads(keyed),
        "keyed since its claim": roads(keyed, "claimed"),
        "keyless": roads(keyless, "action claimed"),
    }
