"""SIGHUP in a worker: what it takes over while it runs, what waits for its next start, and what is refused."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from ledger.errors import Misconfigured
from tests.fix_sandbox import Sandbox
from tests.fix_worker import LEASE_S, PROVIDER, Workshop
from worker import loading, notices
from worker.handlers import Handlers
from worker.reload import read_again

BROKEN = "@handlers.apply('shop', 'broken')\ndef broken(tx, event, propose):\n    raise ValueError('no')\n"
MAIL = '[sources.mail]\nkind = "agentmail"\nsecrets = ["hook"]\n'
POST = PROVIDER.format(url="http://127.0.0.1:1", timeout_s=1.0)


def test_what_can_change_in_a_running_worker_does(workshop: Workshop) -> None:
    old = workshop.settings(more=POST)
    workshop.configure(
        worker="attempts_max = 2\nslots = 3", more=POST.replace("1.0", "2.0"), sweep_s=0.5, grace_s=2
    )
    anew = read_again(old, Handlers())
    worker = anew.settings.worker
    assert (worker.attempts_max, worker.slots, worker.sweep_s, worker.grace_s) == (2, 3, 0.5, 2.0)
    assert anew.settings.providers["post"].timeout_s == 2.0 and list(anew.providers) == ["post"]
    assert anew.after_restart == ()


def test_what_cannot_keeps_its_value_and_is_named(workshop: Workshop) -> None:
    old = workshop.settings()
    workshop.configure(worker="send_slots = 9\nattempts_max = 2", handlers="other", lease_s=9)
    (workshop.folder / "nottwice.toml").write_text(
        (workshop.folder / "nottwice.toml").read_text() + "pool_size = 9\n"
    )
    anew = read_again(old, Handlers())
    assert anew.after_restart == (
        "worker.handlers",
        "worker.lease_s",
        "worker.send_slots",
        "database.pool_size",
    )
    worker = anew.settings.worker
    assert (worker.handlers, worker.lease_s, worker.send_slots) == ("", LEASE_S, old.worker.send_slots)
    assert anew.settings.database == old.database and worker.attempts_max == 2


def test_a_source_that_only_brings_notices_waits_for_the_next_start(workshop: Workshop) -> None:
    old = workshop.settings(more=POST)
    handlers = notices.add_to(Handlers(), old)
    workshop.configure(more=POST + MAIL)
    assert read_again(old, handlers).after_restart == ("sources.mail (notices)",)


def test_our_own_parts_are_no_mistake_of_the_users(workshop: Workshop) -> None:
    """A source that says what became of messages may come, stay and go; only the user's handlers hold one."""
    workshop.configure(more=POST + MAIL)
    old = workshop.settings(more=POST + MAIL)
    handlers = notices.add_to(Handlers(), old)
    assert handlers.kinds and read_again(old, handlers).after_restart == ()
    workshop.configure(more=POST)
    assert "mail" not in read_again(old, handlers).settings.sources


def test_a_source_that_a_handler_waits_for_cannot_go(workshop: Workshop) -> None:
    file = workshop.configure()
    old, handlers = workshop.settings(), Handlers()
    handlers.apply("shop", "sale")(lambda tx, event, propose: None)
    file.write_text(file.read_text().replace("[sources.shop]", "[sources.till]"))
    with pytest.raises(Misconfigured, match=r"there is no \[sources.shop\]"):
        read_again(old, handlers)


def test_a_secret_that_is_gone_is_refused(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    old = workshop.settings(more=POST)
    monkeypatch.delenv("NOTTWICE_SECRET_POST_KEY")
    with pytest.raises(Misconfigured, match="The secret post-key is nowhere"):
        read_again(old, loading.load(old))


def test_a_running_worker_takes_over_rules_and_a_rotated_key(
    workshop: Workshop, sandbox: Sandbox, propose_one: Callable[..., int]
) -> None:
    more = PROVIDER.format(url=sandbox.url, timeout_s=5.0)
    secret = workshop.folder / "secrets" / "post-key"
    secret.parent.mkdir()
    secret.write_text("an old key\n")
    worker = workshop.start(BROKEN, more=more, env={"NOTTWICE_SECRET_POST_KEY": ""})
    propose_one()
    worker.notes.wait_for("account paused", account="post")
    secret.write_text("am-key\n")
    workshop.configure(worker="attempts_max = 1", more=more, handlers="handlers_0", lease_s=30)
    worker.signal(signal.SIGHUP)
    read = worker.notes.wait_for("configuration read")
    assert read["after_restart"] == ["worker.lease_s"]
    worker.notes.wait_for("account is tried again", account="post")
    workshop.accept("broken")
    workshop.until("SELECT bool_and(state = 'sent') FROM nottwice.actions")
    workshop.until("SELECT bool_and(state = 'failed') AND max(attempts) = 1 FROM nottwice.events")
