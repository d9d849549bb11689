"""The Events page: what the lists and one event say, who may read a content, and addresses that name nothing."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from ledger.database import Database
from ledger.events import endings
from tests.dashboard.conftest import App
from tests.fix_events import Ledger, delivery, unusable, worker
from tests.fix_seed import RECEIPT, House, mail
from tests.fix_story import told

TURNED = "x\u202egpj שלום"
NOTHING = "There is nothing here, or you may not see it."


def titles(at: AppTest) -> list[str]:
    assert not at.exception, at.exception
    return [title.value for title in at.title]


def pages(at: AppTest) -> str:
    """All HTML of ours on the page."""
    assert not at.exception, at.exception
    return " ".join(str(element.proto.body) for element in at.main if element.type == "html")


def audited(database: Database) -> list[tuple[str, int, str, str]]:
    rows = database.run(
        lambda tx: tx.all("SELECT entity, entity_id, act, outcome FROM nottwice.audit ORDER BY id")
    )
    return [tuple(row) for row in rows]


def test_an_empty_house_says_what_would_be_here(app: App) -> None:
    at = app("events")
    assert titles(at) == ["Nothing has arrived yet."]


def test_the_list_names_each_event_and_its_state(app: App, house: House) -> None:
    made = told(house)
    at = app("events")
    assert titles(at) == ["6 events have arrived."]
    table = at.dataframe[0].value
    assert list(table["State"].map(list).map(lambda s: s[0])) == [
        "Ignored", "Waiting", "In hand", "Set aside", "Waiting", "Done",
    ]  # fmt: skip
    last = table.iloc[5]
    assert (last["Key"], last["Deliveries"], last["Sends"], last["Tries"]) == (
        "invoice.paid evt_1042",
        "4",
        "1",
        "2 of 5",
    )
    assert made.done


def test_filters_stand_in_the_address_and_a_key_does_not(app: App, house: House) -> None:
    told(house)
    at = app("events", state="failed", source="billing")
    assert titles(at) == ["1 event fits."]
    at.text_input(key="events_key").input("evt_104").run()
    assert titles(at) == ["1 event fits."]
    assert "evt_104" not in str(dict(at.query_params))
    at.selectbox(key="events_state").select("").run()
    assert titles(at) == ["5 events fit."]
    assert dict(at.query_params) == {"source": "billing"}


@pytest.mark.parametrize("text", ["invoice.paid evt_1042", "evt_1042", "1", "#1", "EVT_1042"])
def test_an_event_is_found_by_its_key_or_number(app: App, house: House, text: str) -> None:
    told(house)
    at = app("events")
    at.text_input(key="events_key").input(text).run()
    assert titles(at) == (["No event fits."] if text.isupper() else ["1 event fits."])


def test_a_time_in_the_address_bounds_the_list(app: App, house: House) -> None:
    told(house)
    assert titles(app("events", until="2020-01-01T00:00")) == ["No event fits."]
    assert titles(app("events", **{"from": "2020-01-01T00:00"})) == ["6 events fit."]
    assert titles(app("events", **{"from": "yesterday"})) == ["6 events have arrived."]


def test_one_event_tells_its_story(app: App, house: House) -> None:
    made = told(house)
    at = app("events", event=str(made.done))
    text = pages(at)
    for words in (
        "from <bdi>billing</bdi>: done in 6.4 s, delivered 4 times, 1 e-mail",
        "2 duplicates, last ",
        "Try 1 failed after 1.4 s: TimeoutError: the model gave no answer",
        "Same key, other content (conflict 1)",
        "the worker was stopped before the answer",
        "Done, together with its local changes",
        "version 1",
    ):
        assert words in text
    assert "invoice.paid evt_1042" in [block.value for block in at.code]


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("failing", ": waits for try 3 of 5"),
        ("set_aside", ": set aside after 5 tries"),
        ("waiting", ": waits for a worker since"),
        ("in_hand", ": in hand for"),
        ("ignored", ": ignored, as configured"),
    ],
)
def test_the_heading_says_what_became_of_it(app: App, house: House, which: str, words: str) -> None:
    assert words in pages(app("events", event=str(getattr(told(house), which))))


def unhandled(house: House) -> int:
    (event_id,) = Ledger(house.db).stored("invoice.voided evt_1048", source="billing", type="invoice.voided")
    return event_id


def test_what_no_worker_handles_says_so_on_its_page_and_in_the_list(app: App, house: House) -> None:
    """And it is none of what waits for a worker."""
    told(house)
    at = app("events", event=str(unhandled(house)))
    assert "s, and no worker handles it" in pages(at) and "No worker has a handler for its kind." in pages(at)
    found = app("events", state="unhandled")
    assert titles(found) == ["1 event fits."] and found.selectbox(key="events_state").value == "unhandled"
    assert [list(state) for state in found.dataframe[0].value["State"]] == [["Nobody handles it"]]
    waiting = app("events", state="pending")
    assert titles(waiting) == ["2 events fit."]
    assert [list(state) for state in waiting.dataframe[0].value["State"]] == [["Waiting"]] * 2


def test_the_overview_leads_to_what_is_stuck_and_to_what_became_no_event(app: App, house: House) -> None:
    told(house)
    unhandled(house)
    at = app("overview", person=2)
    links = {link.proto.label: link.proto.query_string for link in at.get("page_link")}
    assert links["See what is stuck"] == "show=aside"
    assert links["See 1 conflict"] == "show=conflicts" and links["See quarantine"] == "show=quarantine"
    assert titles(at)[0].endswith("1 conflict is open, 2 contents are in quarantine.")


def test_no_list_and_no_page_lets_a_stranger_turn_a_line_round(app: App, house: House) -> None:
    book, one = Ledger(house.db), worker(("shop", TURNED), name=TURNED)
    house.run("INSERT INTO nottwice.workers (id, name) VALUES (:id, :name)", id=one.id, name=TURNED)
    (event_id,) = book.stored(TURNED, type=TURNED, delivery_id=TURNED, content_type=TURNED)
    book.accept(delivery(TURNED, type=TURNED, body=b"other"), unusable(b"x", reason=TURNED))
    claimed = book.claim_one(one)
    book.database.run(lambda tx: endings.fail(tx, claimed, error=TURNED, base_s=2, chance=0))
    send = house.uncertain(RECEIPT, mail(f"{TURNED}@example.com", TURNED, TURNED), about=TURNED)
    (conflict,), (kept,) = (
        book.rows("SELECT id FROM nottwice.conflicts"),
        book.rows("SELECT id FROM nottwice.quarantine"),
    )
    for page, address in (
        ("events", {}),
        ("events", {"event": event_id}),
        ("events", {"show": "conflicts"}),
        ("events", {"conflict": conflict[0]}),
        ("events", {"show": "quarantine"}),
        ("events", {"quarantined": kept[0]}),
        ("review", {}),
        ("review", {"send": send}),
    ):
        at = app(page, **{name: str(value) for name, value in address.items()})
        drawn = b"".join(
            block.proto.SerializeToString() for block in at.main if getattr(block, "proto", None)
        )
        assert "⟨U+202E⟩".encode() in drawn and "\u202e".encode() not in drawn, (page, address)


def test_a_content_is_shown_behind_its_audit_row(app: App, house: House, database: Database) -> None:
    made = told(house)
    at = app("events", event=str(made.done))
    assert not any("ana.ruiz" in block.value for block in at.code)
    at.button(key=f"show_event_{made.done}").click().run()
    assert any('"customer": "ana.ruiz@example.com"' in block.value for block in at.code)
    assert audited(database) == [("event", made.done, "reveal", "done")]


def test_an_engineer_says_why_first(app: App, house: House, database: Database) -> None:
    made = told(house)
    at = app("events", person=2, event=str(made.done))
    at.button(key=f"show_event_{made.done}").click().run()
    assert [w.value for w in at.warning] == ["Nothing was shown. Please say why."] and audited(database) == []
    at.text_input(key=f"read_event_{made.done}").input("Ticket 7").run()
    at.button(key=f"show_event_{made.done}").click().run()
    assert audited(database) == [("event", made.done, "reveal", "done")]


def test_what_the_audit_cannot_note_is_not_shown(app: App, house: House) -> None:
    made = told(house)
    house.run("REVOKE INSERT ON nottwice.audit FROM nottwice_support")
    at = app("events", event=str(made.done))
    at.button(key=f"show_event_{made.done}").click().run()
    assert not any("ana.ruiz" in block.value for block in at.code)
    assert any("nothing was shown" in w.value for w in at.warning)


def test_a_conflict_masks_values_until_they_are_revealed(app: App, house: House, database: Database) -> None:
    made = told(house)
    at = app("events", conflict=str(made.conflict))
    table: Any = at.dataframe[0].value
    assert list(table["Path"]) == ["data.object.amount", "data.object.customer", "data.object.lines"]
    assert list(table["First"]) == ["•••", "•••", "– not there"]
    at.button(key=f"show_conflict_{made.conflict}").click().run()
    table = at.dataframe[0].value
    assert list(table["First"]) == ["124000", "ana.ruiz@example.com", "– not there"]
    assert list(table["Later"]) == ["142000", "– not there", "[]"]
    assert audited(database) == [
        ("conflict", made.conflict, "reveal", "done"),
        ("event", made.done, "reveal", "done"),
    ]


def test_a_conflict_is_marked_as_seen_and_leaves_the_list(app: App, house: House, database: Database) -> None:
    made = told(house)
    assert titles(app("events", show="conflicts")) == ["1 key came with other content."]
    at = app("events", conflict=str(made.conflict))
    at.button(key=f"mark_{made.conflict}").click().run()
    assert any("Marked as seen by Ana Soto" in block.value for block in at.success)
    assert audited(database) == [("conflict", made.conflict, "marked as seen", "done")]
    assert titles(app("events", show="conflicts")) == ["Every key came with one content."]


def test_two_events_of_one_occurrence_are_linked_and_lead_to_each_other(
    app: App, house: House, database: Database
) -> None:
    made = told(house)
    at = app("events", event=str(made.waiting))
    for number, said in (
        ("x1", "the number that stands under"),
        (str(made.waiting), "one event, or linked already"),
    ):
        at.text_input(key=f"other_{made.waiting}").input(number)
        at.button(key=f"link_{made.waiting}").click().run()
        assert any(said in w.value for w in at.warning), number
    at.text_input(key=f"other_{made.waiting}").input(str(made.done))
    at.button(key=f"link_{made.waiting}").click().run()
    at.button(key=f"same_{made.done}").click().run()
    assert at.query_params["event"] == str(made.done)
    assert at.button(key=f"same_{made.waiting}").label == f"Tells of the same as event {made.waiting}"
    assert audited(database) == [
        ("event", made.waiting, "linked to another event", "refused"),
        ("event", made.waiting, "linked to another event", "done"),
    ]
    at = app("events", event=str(made.waiting))
    at.button(key=f"unlink_{made.waiting}").click().run()
    assert not [b for b in at.button if str(b.key).startswith("same_")]


def test_who_marks_second_is_told_who_was_first(app: App, house: House, database: Database) -> None:
    made = told(house)
    ana, bo = (app("events", person=person, conflict=str(made.conflict)) for person in (0, 1))
    ana.button(key=f"mark_{made.conflict}").click().run()
    bo.button(key=f"mark_{made.conflict}").click().run()
    assert any("Not done. Ana Soto was first." in block.value for block in bo.info)
    assert any("Marked as seen by Ana Soto" in block.value for block in bo.success)
    assert [outcome for *_, outcome in audited(database)] == ["done", "refused"]


def test_quarantine_shows_bytes_that_are_no_text_as_numbers(app: App, house: House) -> None:
    made = told(house)
    at = app("events", show="quarantine")
    assert titles(at) == ["2 contents are in quarantine."]
    assert list(at.dataframe[0].value["Why"]) == ["It has no usable key.", "It is not UTF-8 (byte 128)."]
    at = app("events", quarantined=str(made.binary))
    at.button(key=f"show_quarantine_{made.binary}").click().run()
    assert at.code[0].value.startswith(
        "000000  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  ................"
    )


@pytest.mark.parametrize("name", ["event", "conflict", "quarantined"])
@pytest.mark.parametrize("address", ["0", "1'--", "![x](http://198.51.100.7)", "-1", "9" * 40, "x" * 10_000])
def test_ui_18_an_address_that_names_nothing_says_one_sentence(app: App, name: str, address: str) -> None:
    assert titles(app("events", **{name: address})) == [NOTHING]


@pytest.mark.parametrize(
    "page", ["overview", "review", "stuck", "events", "reprocess", "audit", "health", "me"]
)
def test_control_letters_in_an_address_say_nothing(app: App, page: str) -> None:
    """NUL, which no text of PostgreSQL's holds, in whatever parameter: every page reads the address without it."""
    filters = ("source", "type", "state", "from", "show", "did", "about", "who", "number", "outcome")
    for names in (filters, ("event", "send", "run", "entry", "cause", "list", "quarantined")):
        at = app(page, person=1, **{"plan": "new"} | dict.fromkeys(names, "sh\x00op\x1b"))
        assert not at.exception, (names, at.exception)
        assert "\x00" not in repr(dict(at.query_params)).replace("\\x00", "\x00"), names


def test_a_key_that_is_searched_for_loses_its_control_letters(app: App, house: House) -> None:
    Ledger(house.db).accept(delivery("evt_104", type="t"))
    at = app("events")
    at.text_input(key="events_key").set_value("evt\x00_1").run()
    assert titles(at) == ["1 event fits."] and not at.exception


# ── Numbers and keys as they are stored ───────────────────────────────────────────────────────────────

BIG = 9007199254740993  # more than a browser's number holds exactly


def test_ui_13_ids_and_keys_on_screen_are_exact(app: App, house: House) -> None:
    """Digit by digit and with its zeros: in the list, found by number and key, on its page and in the record."""
    house.run(
        f"ALTER TABLE nottwice.events ALTER COLUMN id RESTART WITH {BIG}; "
        f"ALTER TABLE nottwice.conflicts ALTER COLUMN id RESTART WITH {BIG}"
    )
    book = Ledger(house.db)
    body = b'{"id": "007", "amount": 1111111111111111111111.10, "n": -9007199254740993}'
    book.accept(delivery("007", type="t", body=body))
    book.accept(delivery("007", type="t", body=body.replace(b".10", b".20")))
    at = app("events")
    assert (at.dataframe[0].value["Key"][0], titles(at)) == ("007", ["1 event has arrived."])
    for text, found in (("007", "1 event fits."), ("7", "No event fits."), (str(BIG), "1 event fits.")):
        at.text_input(key="events_key").input(text).run()
        assert titles(at) == [found], text
    page = app("events", event=str(BIG))
    assert {str(BIG), "007"} <= {block.value for block in page.code}
    conflict = app("events", conflict=str(BIG))
    assert any(button.label == f"Open event {BIG}" for button in conflict.button)
    next(button for button in conflict.button if button.label == "Show both contents").click().run()
    assert any("1111111111111111111111.10" in block.value for block in conflict.code)
    assert any("-9007199254740993" in block.value for block in conflict.code)
    next(button for button in conflict.button if button.label == "Mark as seen").click().run()
    record = app("audit", person=1)
    subjects = set(record.dataframe[0].value["To what"])
    assert subjects == {f"Conflict {BIG}", f"Event {BIG} · t 007"}


def press(at: AppTest, label: str) -> None:
    next(button for button in at.button if button.label == label).click().run()
    assert not at.exception, at.exception


@pytest.mark.parametrize(
    ("length", "more", "then"),
    [
        (50_000, "Show all", "50 kB, all of it."),
        (1_000_000, "Show 200,000 characters", "1.0 MB, of which the first 200,000 characters."),
    ],
)
def test_ui_11_a_long_body_is_cut_and_shown_on_demand(
    app: App, house: House, length: int, more: str, then: str
) -> None:
    Ledger(house.db).stored("evt_long", body=b"x" * length)
    at = app("events", event="1")
    press(at, "Show the content")
    assert [len(block.value) for block in at.code if "xxx" in block.value] == [20_000]
    press(at, more)
    assert [len(block.value) for block in at.code if "xxx" in block.value] == [min(length, 200_000)]
    assert any(caption.value.startswith(then) for caption in at.caption)


def test_quarantine_is_examined_again_one_by_one_or_a_page_at_once(
    app: App, house: House, database: Database
) -> None:
    book = Ledger(house.db)
    book.accept(*(unusable(b"{}", index=n, reason="There is no key.") for n in range(3)))
    one = app("events", quarantined="1")
    next(button for button in one.button if button.label == "Examine again").click().run()
    assert not one.exception, one.exception
    assert any("The next free receiver reads it." in caption.value for caption in one.caption)
    at = app("events")
    at.button_group[0].set_value("quarantine").run()
    assert list(at.dataframe[0].value["Examined again"]) == ["–", "–", "Waits for a receiver"]
    next(button for button in at.button if button.label == "Examine these 2 again").click().run()
    assert not at.exception, at.exception
    assert set(at.dataframe[0].value["Examined again"]) == {"Waits for a receiver"}
    assert audited(database) == [("quarantine", n, "examine again", "done") for n in (1, 2, 3)]
    house.run(
        """UPDATE nottwice.examinations SET done_at = now(), result = 'no_event', reason = 'There is no text at id.'
           WHERE quarantine_id = 1"""
    )
    assert "Still none: There is no text at id." in pages(app("events", quarantined="1"))
