"""The record as a file: nothing leaves unrecorded, no cell is a formula, and the chain can be checked from it."""

from __future__ import annotations

import csv
import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import audit
from ledger.audit import export as audit_export
from ledger.audit import seals, spreadsheet
from ledger.audit.choice import ALL, Chosen
from ledger.audit.export import Exported, Form
from ledger.errors import AlreadyDecided, NotAllowed, NotNow
from ledger.records import Act, Role
from tests.fix_sends import Sends
from tests.ledger.test_seals import entries

HOSTILE = [
    '=HYPERLINK("http://x","y")',
    "+1",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    '"=1,2',
    " =1",
    "＝1",
    "\ufeff=1",
    "'-1",
]


def export(
    sends: Sends,
    act: Act,
    chosen: Chosen = ALL,
    form: Form = "csv",
    **more: Any,
) -> tuple[str, Exported]:
    out = io.StringIO(newline="")
    made = sends.decide(act, lambda tx: audit_export.export(tx, act, chosen, form, out, **more))
    return out.getvalue(), made


def eve(sends: Sends) -> Act:
    return sends.act(sends.person("Eve", Role.AUDITOR))


def tried(sends: Sends, why: str) -> None:
    act = Act(sends.person("Ann"), sends.act(sends.person("Ann")).form_id, why)
    sends.decide(act, lambda tx: audit.refused(tx, act, "try", "action", 5, why))


def test_an_export_is_itself_recorded_with_what_it_held(sends: Sends) -> None:
    ids = entries(sends, 3)
    text, made = export(sends, eve(sends), Chosen(entity="action"))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [int(row["No."]) for row in rows] == ids and made.entries == 3
    note = sends.rows("SELECT * FROM nottwice.audit WHERE id = :id", id=made.audit_id)[0]
    assert (note.act, note.entity, note.outcome) == ("exported the record", "audit", "done")
    assert note.detail == "3 entries as CSV: about action"


def test_aud_01_no_export_without_its_audit_row(sends: Sends) -> None:
    entries(sends, 1)
    sends.sql("REVOKE INSERT ON nottwice.audit FROM nottwice_auditor")
    with pytest.raises(DBAPIError, match="permission denied for table audit"):
        export(sends, eve(sends))
    sends.sql("GRANT INSERT ON nottwice.audit TO nottwice_auditor")
    assert export(sends, eve(sends))[1].entries == 1


def test_ui_03_cells_are_no_formulas_and_numbers_stay_numbers(sends: Sends) -> None:
    for why in HOSTILE:
        tried(sends, why)
    text, _ = export(sends, eve(sends))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["Why"] for row in rows] == ["'" + why for why in HOSTILE]
    for row in csv.reader(io.StringIO(text, newline="")):
        assert not any(cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") for cell in row)
    assert all(row["No."].isdecimal() and row["Number"] == "5" for row in rows)


def test_ui_03_headers_too_and_minus_five_is_a_number() -> None:
    out = io.StringIO(newline="")
    assert spreadsheet.write(out, ["=1", "n"], [["-5", -5], ["a, b", -0.5], [None, 9007199254740993]]) == 3
    assert out.getvalue() == "'=1,n\r\n'-5,-5\r\n\"a, b\",-0.5\r\n,9007199254740993\r\n"


def test_nobodys_words_steer_a_terminal_or_turn_a_line_round() -> None:
    assert spreadsheet.cell("a\x1b[2Jb\u202ec\x07\x85") == "a\ufffd[2Jb⟨U+202E⟩c\ufffd\ufffd"
    assert spreadsheet.cell("two\nlines") == "two\nlines"


def test_a_chain_can_be_checked_from_json_lines_alone(sends: Sends) -> None:
    tried(sends, "Grüße \x1b[2J\u2028 'quoted' =1")
    entries(sends, 2)
    sends.by_worker.run(seals.seal)
    text, _ = export(sends, eve(sends), form="jsonl")
    assert text.isascii() and text.count("\n") == 3
    previous = seals.GENESIS
    for line in text.splitlines():
        told = json.loads(line)
        kept = {n: v if v is None or isinstance(v, list) else str(v) for n, v in told.items()}
        previous = seals.link(previous, SimpleNamespace(**kept))  # type: ignore[arg-type]
        assert told["hash"] == previous.hex()


def test_one_form_exports_once(sends: Sends) -> None:
    entries(sends, 1)
    act = eve(sends)
    export(sends, act)
    with pytest.raises(AlreadyDecided):
        export(sends, act)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUPPORT, Role.ENGINEER])
def test_only_auditors_and_admins_export(sends: Sends, role: Role) -> None:
    entries(sends, 1)
    with pytest.raises(NotAllowed):
        export(sends, sends.act(sends.person("Vi", role)))
    assert len(sends.rows("SELECT FROM nottwice.audit")) == 1


def test_too_much_and_nothing_are_refused_in_words(sends: Sends) -> None:
    entries(sends, 3)
    with pytest.raises(NotNow, match="more than 2 entries. Choose a shorter time"):
        export(sends, eve(sends), entries_max=2)
    with pytest.raises(NotNow, match="nothing to export"):
        export(sends, eve(sends), Chosen(entity="event"))
    assert export(sends, eve(sends), entries_max=3)[1].entries == 3
