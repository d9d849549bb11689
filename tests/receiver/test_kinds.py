"""Which kinds of source there are: found in their folder, and asked whether a configuration fits before anything runs."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.errors import Misconfigured
from ledger.receiver import sources
from ledger.receiver.open_files import OPEN_MAX
from ledger.receiver.sources import adapters, kinds
from ledger.receiver.starting import main as receive
from ledger.settings import load
from ledger.settings.sources import OF_SOME_KINDS, SourceSettings

HEAD = '[sources.a]\nkind = "{kind}"\nsecrets = ["s"]\n'
GENERIC = HEAD.format(kind="generic") + 'signature_header = "X"\n'
OURS = """
from ledger.receiver.sources.adapter import Adapter, Identity
from ledger.receiver.sources.facts import Facts
from ledger.receiver.sources.generic import Generic  # imported, not declared

class Ours(Adapter):
    kind = "{kind}"
    facts = Facts(sender="ours", signature="none", key="id", type="type", resource_ids="none")

    def is_authentic(self, arrival):
        return True

    def identity(self, document, arrival):
        return Identity("t", ("k",))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("NOTTWICE_SECRET_S", "a secret of some length")
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A second folder of sources, looked through as if it were the first."""
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(tmp_path)])
    kinds.cache_clear()
    yield tmp_path
    kinds.cache_clear()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HEAD.format(kind="agentmial"), "line 2: [sources.a] kind must be one of agentmail, "),
        (HEAD.format(kind="agentmial"), "; did you mean agentmail?\n"),
        (HEAD.format(kind="agentmail") + 'key_path = "id"\n',
         "line 4: [sources.a] key_path is not for kind agentmail, which has its own rules; kinds "),
        (HEAD.format(kind="agentmail") + 'key_path = "id"\n', " and message.com take it.\n"),
        (HEAD.format(kind="agentmail") + 'message_path = "id"\n',
         "line 4: [sources.a] message_path is not for kind agentmail, which has its own rules; kinds generic, inboxili and mailera take"),
        (HEAD.format(kind="inboxili") + 'signature_header = "X"\n', "line 4: [sources.a] signature_header is not for kind"),
        (HEAD.format(kind="inboxili") + 'type_path = ""\n', "line 4: [sources.a] type_path is empty"),
        (HEAD.format(kind="agentmail"), "line 3: [sources.a] secrets has a secret that is none of AgentMail's"),
        (HEAD.format(kind="inboxili") + "tolerance_s = 60\n", "line 4: [sources.a] tolerance_s does nothing for kind inboxili"),
        (GENERIC + 'key_path = "id"\ntype_path = "type"\ntime_path = ""\n', "[sources.a] time_path is empty; leave it out"),
        (GENERIC + 'key_path = "id"\ntype_path = "type"\nsignature_prefix = ""\n', "[sources.a] signature_prefix is empty; "),
        (HEAD.format(kind="github") + 'ordering_path = ""\n', "line 4: [sources.a] ordering_path is empty; leave it out"),
        (GENERIC + 'type_path = "type"\n', "line 1: [sources.a] key_path or key_header finds the event's key"),
    ],
)  # fmt: skip
def test_what_does_not_fit_stops_the_start_with_its_line(
    home: Path, text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "nottwice.toml").write_text(text)
    assert receive() == 2
    said = capsys.readouterr().err
    assert said.startswith(f"nottwice receive: {home / 'nottwice.toml'}, line ")
    assert sentence in said
    assert said.count("\n") == 1


def test_a_start_asks_for_as_many_connections_as_it_may_have(home: Path) -> None:
    """Else a thousand that say nothing would take every place."""
    (home / "nottwice.toml").write_text(HEAD.format(kind="agentmial"))
    before = _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_MAX)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted // 2, hard))
    try:
        assert receive() == 2
        found, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert found == wanted


def test_a_file_in_the_folder_is_a_source(home: Path, folder: Path) -> None:
    (folder / "ours.py").write_text(OURS.format(kind="ours"))
    (folder / "shared.py").write_text("from ledger.receiver.sources.generic import Generic\n")
    (home / "nottwice.toml").write_text(HEAD.format(kind="ours"))
    assert adapters(load())["a"].facts.sender == "ours"
    assert {"agentmail", "generic", "inboxili", "ours"} <= set(kinds())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OURS.format(kind="agentmail"), "Two sources declare the kind agentmail; the second is ours_.*py"),
        ("1 / 0\n", "The source in ours_.*py cannot be imported: ZeroDivisionError: division by zero."),
        ("def broken(:\n", "The source in ours_.*py cannot be imported: SyntaxError"),
    ],
)
def test_a_file_that_is_no_source_is_named(folder: Path, text: str, words: str) -> None:
    (folder / f"ours_{abs(hash(text))}.py").write_text(text)
    with pytest.raises(Misconfigured, match=words):
        kinds()


def test_every_option_of_some_kinds_is_taken_by_one() -> None:
    taken = set().union(*(kind.facts.takes for kind in kinds().values()))
    assert taken == OF_SOME_KINDS <= set(SourceSettings.model_fields)
