"""docs/providers.md says of every provider what its code says, and every block of configuration works."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

import pytest

from ledger.provider_facts import FACTS
from ledger.records import InFlight, NotSent, Refused, Unknown
from ledger.settings import load
from ledger.settings.mailera import MaileraSpelling
from ledger.settings.providers import KEY_WINDOWS_S, LABELS, OF_ONE_KIND, TIMEOUTS_S, Kind, ProviderSettings
from tests.docs.book import blocks
from tests.fix_sandbox import Sandbox
from worker import providers
from worker.providers import agentmail, inboxili
from worker.providers.mailera_answers import rows
from worker.providers.outcomes import ANY, BY_SETTINGS, Rule
from worker.providers.smtp_answers import TABLE as STEPS
from worker.providers.smtp_answers import Row

FILE = Path(__file__).parents[2] / "docs" / "providers.md"
PAGE = FILE.read_text("utf-8")
SECTION = re.compile(r"^## ([^\n]+) \(`([^`]+)`\)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = {kind: (title, text) for title, kind, text in SECTION.findall(PAGE)}
WORDS: dict[type, str] = {Refused: "refused", NotSent: "not sent", InFlight: "in flight", Unknown: "unknown"}


def by_status(table: Iterable[Rule]) -> str:
    """A provider's table over HTTP, as the page has it."""
    lines = ["| answer | outcome | what it means |", "|---|---|---|"]
    for rule in table:
        code = {ANY: "", "": ", without a code"}.get(rule.code, f" `{rule.code}`")
        held = _held(rule.pauses, rule.status in BY_SETTINGS)
        lines.append(f"| {rule.status}{code} | {WORDS[rule.outcome]}{held} | {rule.means} |")
    return "\n".join(lines)


def by_step(table: Sequence[Row]) -> str:
    """SMTP's, where rows that say the same are one."""
    lines = ["| step | ends | outcome | what it means |", "|---|---|---|---|"]
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in table:
        outcome = WORDS[row.outcome] + _held(row.pauses, row.by_settings)
        ends = {"lost": "no reply", "4": "4yz", "5": "5yz"}.get(row.ends, row.ends)
        groups.setdefault((row.step, outcome, row.means), []).append(ends)
    lines += [
        f"| {step} | {', '.join(ends)} | {outcome} | {means} |"
        for (step, outcome, means), ends in groups.items()
    ]
    return "\n".join(lines)


def _held(pauses: bool, by_settings: bool) -> str:
    if not pauses:
        return ""
    return (
        "; the account is held, and tried when settings are read anew"
        if by_settings
        else "; the account is held"
    )


TABLES = {
    "agentmail": by_status(agentmail.TABLE),
    "inboxili": by_status(inboxili.TABLE),
    "mailera": by_status(rows(MaileraSpelling())),
    "smtp": by_step(STEPS),
}


def test_every_kind_has_its_section_and_no_other_has() -> None:
    assert set(SECTIONS) == set(get_args(Kind)) == set(providers.KINDS)
    assert {kind: title for kind, (title, _) in SECTIONS.items()} == LABELS


@pytest.mark.parametrize("kind", TABLES)
def test_a_section_says_what_the_code_says(kind: str) -> None:
    assert TABLES[kind] in SECTIONS[kind][1]


@pytest.mark.parametrize("kind", TABLES)
def test_a_section_says_how_long_a_key_and_a_call_last(kind: str) -> None:
    text = SECTIONS[kind][1]
    window_s, timeout_s = KEY_WINDOWS_S.get(kind), TIMEOUTS_S.get(kind, 30.0)
    assert (f"`window_s = {window_s:g}`" if window_s else "no keys") in text
    assert f"`timeout_s = {timeout_s:g}`" in text


def test_every_setting_is_named() -> None:
    said = set(re.findall(r"`(\w+)[` =]", PAGE)) | set(re.findall(r"^(\w+) = ", PAGE, re.MULTILINE))
    said |= set(re.findall(r"^\[providers\.\w+\.(\w+)\]", PAGE, re.MULTILINE))
    assert not set(ProviderSettings.model_fields) - said
    for name, kind in OF_ONE_KIND.items():
        assert name in SECTIONS[kind][1], f"{name} belongs to {kind}"
    assert not set(MaileraSpelling.model_fields) - set(re.findall(r"\w+", SECTIONS["mailera"][1]))


def test_the_page_says_what_each_kind_goes_out_from() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE))
    assert set(rows) == set(FACTS)
    for kind, facts in FACTS.items():
        assert tuple(re.findall(r"`(\w+)`", rows[kind])) == facts.sent_from


def test_the_sandbox_takes_the_fault_of_the_page(sandbox: Sandbox) -> None:
    (block,) = (block for block in blocks(FILE) if block.words == "faults")
    port = {**os.environ, "NOTTWICE_SANDBOX_PORT": sandbox.url.rpartition(":")[2]}
    subprocess.run(["bash", "-ec", block.text], env=port, check=True, capture_output=True, timeout=40)
    (armed,) = sandbox.http.get("/sandbox/faults").json()
    assert armed == {"provider": "inboxili", "accept_then_silence": True, "count": 1}


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_every_block_of_configuration_works(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nottwice.toml").write_text(block)
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setattr("ledger.settings.Settings.secret", lambda self, name: "a key")
    assert providers.build_all(load())
