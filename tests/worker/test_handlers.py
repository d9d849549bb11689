"""What a user may register, and what is refused at the start, in one sentence."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import Misconfigured
from ledger.records import Event
from ledger.running import processes
from tests.fix_worker import Notes, configured
from worker.handlers import Handlers
from worker.loading import load
from worker.words import in_words

EVENT = Event(7, "acme", "shop", "sale", "k", b"{}", datetime.now(UTC), None)


def slow(event: Event) -> str:
    return f"prepared {event.id}"


def stored(tx: Any, event: Event, prepared: str, propose: Any) -> None:
    tx.append(prepared)


def booked(tx: Any, event: Event, propose: Any) -> None:
    tx.append(event.id)


def yields(tx: Any, event: Event, propose: Any) -> Any:
    yield event


async def later(tx: Any, event: Event, propose: Any) -> None:
    return None


def test_both_parts_run_with_what_they_ask_for() -> None:
    handlers = Handlers()
    handlers.on("shop", "sale")(slow).apply(stored)
    handlers.apply("shop", "refund")(booked)
    handlers.check({"shop": None})
    log: list[Any] = []
    handler = handlers.find(EVENT)
    handler.commit(log, EVENT, handler.prepare(EVENT), None)  # type: ignore[arg-type]
    assert log == ["prepared 7"]
    assert handlers.kinds == (("shop", "refund"), ("shop", "sale"))
    assert (handlers.slow_kinds, handlers.quick_kinds) == ((("shop", "sale"),), (("shop", "refund"),))


def test_a_registered_function_stays_callable() -> None:
    handlers = Handlers()
    assert handlers.apply("shop", "sale")(booked) is booked
    assert handlers.on("shop", "refund")(slow)(EVENT) == "prepared 7"


def test_a_slow_part_may_be_async() -> None:
    async def thinks(event: Event) -> str:
        await asyncio.sleep(0)
        return "thought"

    handlers = Handlers()
    with ThreadPoolExecutor(1) as pool:  # as the executor does: a slow part has a thread of its own
        handler = handlers.on("shop", "sale")(thinks)
        assert pool.submit(handler.prepare, EVENT).result() == "thought"


@pytest.mark.parametrize(
    ("register", "words"),
    [
        (lambda h: (h.apply("shop", "sale")(booked), h.on("shop", "sale")(slow)), "is registered twice"),
        (lambda h: h.apply("shop", "sale")(stored), r"must take \(tx, event, propose\); stored does not"),
        (lambda h: h.on("shop", "sale")(slow).apply(booked), r"must take \(tx, event, prepared, propose\)"),
        (lambda h: h.on("shop", "sale")(booked), r"must take \(event\); booked does not"),
        (lambda h: h.apply("shop", "sale")("booked"), "must be a function"),
        (lambda h: h.apply("shop", "sale")(yields), "must not yield; yields does"),
        (lambda h: h.apply("shop", "sale")(later), "has an async apply part"),
    ],
)
def test_a_wrong_registration_is_refused(register: Callable[[Handlers], Any], words: str) -> None:
    with pytest.raises(Misconfigured, match=f"The handler of shop sale {words}"):
        register(Handlers())


def test_a_second_apply_part_is_refused() -> None:
    handler = Handlers().on("shop", "sale")(slow)
    handler.apply(stored)
    with pytest.raises(Misconfigured, match="has an apply part already"):
        handler.apply(stored)


def test_a_slow_part_without_an_apply_part_is_refused() -> None:
    handlers = Handlers()
    handlers.on("shop", "sale")(slow)
    with pytest.raises(Misconfigured, match="has a slow part but no apply part"):
        handlers.check({"shop": None})


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Handlers]:
    """Loads handlers from a module with this text, found beside the configuration file."""
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))

    def loaded(text: str) -> Handlers:
        from ledger.settings import load as load_settings

        name = f"users_{abs(hash(text))}"
        (tmp_path / f"{name}.py").write_text(text)
        return load(load_settings(configured(tmp_path, more=LETTERS, handlers=name)))

    return loaded


LETTERS = """
[sources.letters]
kind = "agentmail"
secrets = ["letters-hook"]
ignored_types = ["message.opened"]
"""
HEAD = "from worker.handlers import Handlers\nhandlers = Handlers()\n"


def test_the_module_beside_the_configuration_is_loaded(module: Callable[[str], Handlers]) -> None:
    handlers = module(HEAD + "@handlers.apply('shop', 'sale')\ndef sale(tx, event, propose): pass\n")
    assert handlers.kinds == (("shop", "sale"),)


def test_a_file_beside_the_configuration_stands_in_for_no_package(
    module: Callable[[str], Handlers], tmp_path: Path
) -> None:
    """Neither for what we import after the handlers, nor, in the folder of the command, before them."""
    (tmp_path / "colorsys.py").write_text("raise SystemExit('the wrong one')\n")
    module(HEAD + "handlers.apply('shop', 'sale')(lambda tx, event, propose: None)\n")
    found = PathFinder.find_spec("colorsys", sys.path)
    assert found is not None and found.origin != str(tmp_path / "colorsys.py")
    subprocess.run(processes.module("colorsys"), cwd=tmp_path, check=True, timeout=60)


SALE = "@handlers.apply('shop', 'sale')\ndef sale(tx, event, propose): pass\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "import no_such_module",
            r"cannot be imported: ModuleNotFoundError: No module named 'no_such_module' \(users_\d+.py, line 1\)\.$",
        ),
        ("def broken(:", r"cannot be imported: SyntaxError: invalid syntax \(users_\d+.py, line 1\)\.$"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("handlers = []", r"has no `handlers = Handlers\(\)`; it has a list of that name"),
        ("from worker.handlers import Handlers as handlers", "it has a type of that name"),
        ("pass", r"has no `handlers = Handlers\(\)`; it has none"),
        (HEAD, "registers nothing. Import the modules with your handlers in it"),
        (
            HEAD + SALE + "other = Handlers()\nother.apply('shop', 'refund')(sale)\n",
            r"the handler of shop refund is in a registry that users_\d+ does not offer",
        ),
        (
            HEAD + SALE + "handlers.apply('nottwice', 'action.send')(sale)\n",
            "waits for what never comes: .*action.sent",
        ),
        (
            HEAD + SALE + "handlers.apply('letters', 'message.opened')(sale)\n",
            r"The handler of letters message.opened waits for a type that \[sources.letters\] ignores",
        ),
        (
            HEAD + SALE + "from ledger.database import _inside\n_inside.set(True)\n",
            "leaves a transaction open when it is imported",
        ),
        (
            HEAD + "@handlers.apply('stripe', 'sale')\ndef sale(tx, event, propose): pass\n",
            r"there is no \[sources.stripe\]",
        ),
        (HEAD + "@handlers.apply('shop', 'sale')\ndef sale(tx): pass\n", "must take .tx, event, propose."),
    ],
)
def test_a_module_that_does_not_fit_is_refused(
    module: Callable[[str], Handlers], text: str, words: str
) -> None:
    with pytest.raises(Misconfigured, match=words) as refused:
        copy_context().run(module, text)  # one of them leaves a transaction open in it
    assert "\n" not in str(refused.value), "one sentence"


def test_what_is_only_odd_is_noted_and_the_worker_starts(
    module: Callable[[str], Handlers], notes: Notes
) -> None:
    module(
        HEAD
        + SALE
        + "handlers.apply('letters', 'message.recieved')(sale)\nhandlers.apply('nottwice', 'action.sent')(sale)\n"
        + "import threading, time\nthreading.Thread(target=time.sleep, args=(0.5,), name='mine', daemon=True).start()\n"
    )
    assert [note["why"] for note in notes.of("handler in doubt")] == [
        "agentmail is not known to send message.recieved; did you mean message.received?",
        "no kind of action has tell_when_sent, so action.sent never comes",
    ]
    assert notes.of("handlers started threads", names=["mine"])


def test_an_error_in_words_is_one_line_and_says_where() -> None:
    with pytest.raises(ValueError, match="first") as raised:
        raise ValueError("first\nsecond")
    assert in_words(raised.value).startswith("ValueError: first second (test_handlers.py, line ")


def test_a_worker_imports_no_providers_package_before_it_needs_one() -> None:
    heavy = ["agentmail", "inboxili", "httpx"]
    look = f"import worker.daemon, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_a_call_needs_is_imported_before_its_deadline_runs() -> None:
    """agentmail imports itself in pieces, each at its first use."""
    look = """
import sys
import worker.providers.agentmail
before = set(sys.modules)
from agentmail import AgentMail
AgentMail(api_key="k").inboxes.messages
print(sorted(name for name in set(sys.modules) - before if name.startswith("agentmail.inboxes.") and name.endswith("client")))
"""
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
