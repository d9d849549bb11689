"""What a worker remembers of its ledger, beside it: a backup that is put back in its place sends nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ledger.accounts.restored import OTHER_SERVER, SET_BACK
from ledger.embedded import Cluster
from ledger.settings import Settings
from tests.fix_sandbox import Sandbox, until
from tests.fix_sender import POST, Senders, pump_until, state_of
from tests.fix_worker import Notes, Workshop
from worker.standing import FILE, StandingWatch, _files_of


def watch(workshop: Workshop, settings: Settings) -> StandingWatch:
    """As a process that starts anew."""
    return StandingWatch(workshop.database, settings)


def test_a_backup_put_back_in_place_is_noticed_by_what_the_home_remembers(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Callable[..., int], notes: Notes
) -> None:
    settings = workshop.settings(more=POST.format(url=sandbox.url, timeout_s=15.0))
    sender, action = senders(timeout_s=15.0), propose_one()
    watch(workshop, settings).look()
    pump_until(sender, lambda: state_of(workshop, action) == "sent")
    watch(workshop, settings).look()
    workshop.run("DELETE FROM nottwice.messages")
    workshop.run("DELETE FROM nottwice.action_attempts")
    workshop.run("SELECT setval('nottwice.action_attempts_id_seq', 1, false)")
    workshop.run(
        """UPDATE nottwice.actions SET state = 'approved', due_at = now(), settled_at = NULL, message_id = NULL, attempts = 0,
                                       first_started_at = NULL"""
    )  # as it was in the backup
    watch(workshop, settings).look()
    watch(workshop, settings).look()
    assert [note["why"] for note in notes.of("sending is held")] == [SET_BACK]
    assert sender.pump() == 0 and len(sandbox.requests) == 1


def test_a_ledger_that_is_moved_under_a_running_sender_is_held_before_the_call(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Callable[..., int], notes: Notes
) -> None:
    """Nobody has looked yet: the judge refuses, and the send is not claimed again and again until somebody does."""
    sender, action = senders(timeout_s=15.0), propose_one()
    workshop.run("UPDATE nottwice.installation SET place = 'server 1, database 2, table 3'")
    assert sender.pump() == 1
    notes.wait_for("action handed back", action_id=action, state="approved")
    until(lambda: sender.calls == 0, 15)
    assert sender.pump() == 0 and not sandbox.requests
    assert workshop.value("SELECT held_why FROM nottwice.installation") == OTHER_SERVER


def test_a_mark_that_cannot_be_read_or_kept_holds_nothing(workshop: Workshop, notes: Notes) -> None:
    settings = workshop.settings()
    (settings.home / FILE).write_text("{")
    watch(workshop, settings).look()
    assert workshop.value("SELECT nottwice.may_send()")
    (settings.home / FILE).unlink()
    (settings.home / FILE).with_suffix(".new").mkdir()
    watch(workshop, settings).look()
    assert notes.of("mark not kept") and workshop.value("SELECT nottwice.may_send()")


def test_a_copy_of_an_embedded_servers_files_is_another_place(cluster: Cluster, tmp_path: Path) -> None:
    assert _files_of(cluster.home) == _files_of(cluster.home)
    copy = tmp_path / "copy"
    (copy / "postgres" / "data" / "global").mkdir(parents=True)
    (copy / "postgres" / "data" / "PG_VERSION").write_text("18")
    assert _files_of(copy) != _files_of(cluster.home)
    moved = copy.rename(tmp_path / "moved")
    assert _files_of(moved) == _files_of(moved.rename(tmp_path / "again"))
