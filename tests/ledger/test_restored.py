"""After a restore or a clone nothing is sent until a named person releases it; what then is known of what waits."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from ledger import actions, decisions
from ledger.accounts import restored
from ledger.accounts.restored import OTHER_FILES, OTHER_SERVER, SET_BACK, Mark
from ledger.check import Level, findings
from ledger.cli import app
from ledger.database import Database
from ledger.embedded import PORT, Cluster
from ledger.embedded.place import settle
from ledger.errors import Held, Incomplete, MayNotStart, NotAllowed, NotNow
from ledger.records import Role
from ledger.settings import AlertSettings
from ledger.states import ActionState
from tests.databases import TEMPLATE, connected
from tests.fix_sends import KEYED, KEYLESS, TO_APPROVE, Sends

S = ActionState
ELSEWHERE = "UPDATE nottwice.installation SET place = 'server 1, database 2, table 3'"


def looked(sends: Sends, folder: str | None = None, noted: Mark | None = None) -> str:
    return sends.by_worker.run(lambda tx: restored.look(tx, folder, noted)).why


def released(sends: Sends, *, whole: bool = False, role: Role = Role.ADMIN) -> int:
    act = sends.act(sends.person("Bo", role), "restored on the new server")
    return sends.decide(act, lambda tx: restored.release(tx, act, whole=whole))


@contextmanager
def door(cluster: Cluster, name: str) -> Iterator[Sends]:
    """The processes' and people's doors to another database."""
    url = sa.make_url(cluster.url(database=name))
    owner, worker, console = (
        Database(url.set(username=login).render_as_string(hide_password=False))
        for login in ("postgres", "nottwice_worker", "nottwice_console")
    )
    try:
        yield Sends(owner, worker, console)
    finally:
        for one in (owner, worker, console):
            one.close()


def dumped_into(cluster: Cluster, source: str, name: str, folder: Path) -> None:
    """A backup as it is usually made, put into a new database."""
    programs, at = (
        settle(cluster.home).programs,
        ["-h", str(cluster.socket), "-p", str(PORT), "-U", "postgres"],
    )
    dump = str(folder / "dump")
    subprocess.run([programs / "pg_dump", *at, "-Fc", "-f", dump, source], check=True)
    subprocess.run([programs / "pg_restore", *at, "--exit-on-error", "-d", name, dump], check=True)


@pytest.mark.parametrize("how", ["dump", "template"])
def test_a_ledger_in_another_database_sends_nothing_until_it_is_released(
    cluster: Cluster, database_url: str, tmp_path: Path, how: str
) -> None:
    name = f"copy_{uuid4().hex[:12]}"
    with connected(cluster, "postgres") as admin:
        admin.execute(f"CREATE DATABASE {name}" + (f" TEMPLATE {TEMPLATE}" if how == "template" else ""))
        try:
            if how == "dump":
                dumped_into(cluster, str(sa.make_url(database_url).database), name, tmp_path)
            with door(cluster, name) as sends:
                sends.proposed()
                claimed = sends.claimed()
                with pytest.raises(Held):  # also before anybody has looked
                    sends.started(claimed)
                assert looked(sends) == OTHER_SERVER
                sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease))
                assert sends.claim_or_none() is None
                released(sends, whole=True)
                assert looked(sends) == ""
                assert sends.started(sends.claimed())
        finally:
            admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def test_what_is_found_is_found_once_and_said_by_check(sends: Sends) -> None:
    assert looked(sends) == ""
    sends.sql(ELSEWHERE)
    first = sends.by_worker.run(restored.look)
    again = sends.by_worker.run(restored.look)
    assert (first.why, first.is_new, again.why, again.is_new) == (OTHER_SERVER, True, OTHER_SERVER, False)
    found = sends.by_console.run(lambda tx: findings(tx, AlertSettings()))
    (held,) = [one for one in found if one.what.startswith("Nothing is sent: ")]
    assert held.level is Level.CRITICAL and "nottwice release --as EMAIL" in held.what


@pytest.mark.parametrize(
    ("folder", "noted", "why"),
    [
        ("11 12 13", None, ""),
        ("11 12 99", None, OTHER_FILES),
        (None, (0, 0), ""),
        (None, (0, 7), SET_BACK),
        (None, (1, 0), SET_BACK),
    ],
)
def test_copied_files_and_a_backup_put_back_in_place(
    sends: Sends, folder: str | None, noted: tuple[int, int] | None, why: str
) -> None:
    assert looked(sends, "11 12 13") == ""
    (row,) = sends.rows("SELECT id FROM nottwice.installation")
    assert looked(sends, folder, Mark(row.id, *noted) if noted else None) == why
    assert looked(sends, "11 12 13", Mark(uuid4(), 9, 9)) == why, "another ledger's mark says nothing"
    sends.proposed()
    assert (sends.claim_or_none() is None) == bool(why)


def test_what_was_noted_before_a_release_is_not_held_against_it(sends: Sends) -> None:
    (row,) = sends.rows("SELECT id FROM nottwice.installation")
    noted = Mark(row.id, 0, 7)
    assert looked(sends, None, noted) == SET_BACK
    released(sends)
    assert looked(sends, None, noted) == ""


def test_after_a_release_each_send_that_waits_may_have_gone_out(sends: Sends) -> None:
    """Within its key's window it is tried again with the same key; all others a person sees, with the reason."""
    young, old, keyless, to_approve = (
        sends.proposed(r) for r in (KEYED, KEYED, KEYLESS, replace(TO_APPROVE, key_window_s=None))
    )
    sends.aged(old, 2 * 86_400.0)
    sends.sql(ELSEWHERE)
    assert looked(sends) == OTHER_SERVER
    assert released(sends) == 4
    (entry,) = sends.rows("SELECT * FROM nottwice.audit WHERE act = 'release sending'")
    assert (entry.why, entry.state_before, entry.state_after, entry.known) == (
        "restored on the new server", "held", "sending", OTHER_SERVER,
    )  # fmt: skip
    act, seen = sends.act(sends.person("Ann")), sends.seen(to_approve)
    sends.decide(act, lambda tx: decisions.approve(tx, to_approve, seen, act, wait_s=0))
    for _ in range(4):
        lease = sends.claimed().lease
        if lease.action_id == young:
            assert sends.by_worker.run(lambda tx, lease=lease: actions.start(tx, lease))
            continue
        with pytest.raises(
            MayNotStart, match="The ledger was restored or copied; this may have gone out since"
        ):
            sends.by_worker.run(lambda tx, lease=lease: actions.start(tx, lease))
        assert sends.by_worker.run(lambda tx, lease=lease: actions.hand_back(tx, lease)) is S.NEEDS_REVIEW
    assert sends.state(young) is S.SENDING
    assert {sends.row(one).verdict for one in (old, keyless, to_approve)} == {"nobody_knows"}


def test_moved_whole_nothing_is_in_doubt(sends: Sends) -> None:
    keyless = sends.proposed(KEYLESS)
    sends.sql(ELSEWHERE)
    assert released(sends, whole=True) == 0
    assert sends.attempts(keyless) == []
    assert sends.started(sends.claimed("inboxili"))


def test_who_may_release_and_when(sends: Sends) -> None:
    with pytest.raises(NotNow, match="is not held"):
        released(sends)
    sends.sql(ELSEWHERE)
    for role in set(Role) - {Role.ADMIN}:
        with pytest.raises(NotAllowed, match="An admin releases it"):
            released(sends, role=role)
    act = sends.act(sends.person("Bo", Role.ADMIN), reason=" ")
    with pytest.raises(Incomplete):
        sends.decide(act, lambda tx: restored.release(tx, act))
    assert looked(sends) == OTHER_SERVER


@pytest.mark.parametrize("login", ["by_worker", "by_console"])
def test_the_database_lets_nobody_release_without_an_entry(sends: Sends, login: str) -> None:
    sends.sql(ELSEWHERE)
    looked(sends)
    run: Callable[..., object] = getattr(sends, login).run
    role = Role.ADMIN if login == "by_console" else None
    for sql in (
        "SELECT nottwice.release_sending(1, true)",
        "UPDATE nottwice.installation SET place = nottwice.place()",
    ):
        with pytest.raises(sa.exc.DBAPIError):
            run(lambda tx, sql=sql: tx.execute(sql) and None, role=role)
    assert looked(sends) == OTHER_SERVER


# ── The command ───────────────────────────────────────────────────────────────────────────────────────

PEOPLE = """
[[console.people]]
name = "Bo"
email = "bo@example.com"
role = "{role}"
"""


def test_the_command_looks_and_releases_in_a_persons_name(
    sends: Sends, login_url: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", login_url("nottwice_console"))
    file = tmp_path / "nottwice.toml"
    file.write_text(PEOPLE.format(role="support"))

    def said(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["release", *arguments])
        return done.exit_code, " ".join(done.output.split())

    named = ("--as", "bo@example.com", "--reason", "restored")
    assert said() == (0, "Nothing is held: this ledger is where it was.")
    sends.proposed(KEYED), sends.proposed(KEYLESS), sends.proposed(TO_APPROVE)
    sends.sql(ELSEWHERE)
    code, words = said()
    assert (
        code == 1
        and words.startswith(f"Nothing is sent: {OTHER_SERVER}")
        and "2 go by providers with keys and 1 by providers without" in words
    )
    assert said("--as", "bo@example.com")[0] == 2
    assert said(*named) == (1, "Not released. You can read this. An admin releases it.")
    file.write_text(PEOPLE.format(role="admin"))
    assert said(*named) == (0, "Released, as Bo. Sends that may have gone out since: 3.")
    assert said(*named) == (1, "Not released. Sending is not held, so there is nothing to release.")
    sends.sql(ELSEWHERE)
    assert said(*named) == (0, "Released, as Bo. Sends that may have gone out since: 3."), "they wait still"
    entries = sends.rows("SELECT outcome FROM nottwice.audit WHERE act = 'release sending' ORDER BY id")
    assert [entry.outcome for entry in entries] == ["refused", "done", "refused", "done"]
