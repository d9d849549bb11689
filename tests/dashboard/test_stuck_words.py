"""Every way to be stuck has its two sentences: why nobody has taken it, and what happens next."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from dashboard.screens import stuck_words
from dashboard.screens.stuck_words import Pace
from ledger.events import by_hand
from ledger.records import Act, Role
from ledger.sign_in import people
from ledger.views import stuck as views_stuck
from ledger.views.stuck_found import Segment
from ledger.views.stuck_rows import Limits
from tests.fix_events import worker
from tests.fix_seed import House
from tests.fix_stuck import Stuck

LIMITS, PACE = Limits(60.0, 300.0, 60.0), Pace(5.0, 300.0)
Said = dict[str, tuple[str, str]]


@pytest.fixture
def stuck(house: House) -> Stuck:
    return Stuck(house)


def said(stuck: Stuck, segment: Segment) -> Said:
    """By what it is: why, and what next."""
    page = stuck.house.db.run(lambda tx: views_stuck.page(tx, segment, LIMITS), role=Role.VIEWER)
    return {
        stuck_words.thing(row): (
            stuck_words.why(row, page.around),
            stuck_words.happens_next(row, page.around, PACE),
        )
        for row in page.rows
    }


def heading(stuck: Stuck) -> str:
    def read(tx: object) -> str:
        sizes = views_stuck.sizes(tx, LIMITS)  # type: ignore[arg-type]
        return stuck_words.stands(sizes, views_stuck.around(tx, LIMITS), PACE)  # type: ignore[arg-type]

    return stuck.house.db.run(read, role=Role.VIEWER)


def test_a_lease_that_ended_says_when_it_is_taken_back(stuck: Stuck) -> None:
    stuck.in_hand("over", left_s=-14.0)
    stuck.in_hand("ageing", left_s=15.0)
    stuck.sending("RF-220")
    found = said(stuck, "past")
    why, then = found["invoice.paid over"]
    assert re.fullmatch(r"Lease ended \d+ s ago; last sign [\d.]+ s ago\.", why), why
    assert then == "The next sweep takes it within 5 s."
    why, then = found["invoice.paid ageing"]
    assert why.startswith("Its worker gave a sign ") and then.startswith("Lease ends in ")
    assert found["✉ Refund notice: RF-220"][1] == "The next sweep takes it within 5 s."
    assert heading(stuck) == "2 pieces of work are stuck. 2 free themselves within 5 s."
    stuck.house.run("UPDATE nottwice.events SET attempts = attempts_max WHERE lease_until < now()")
    assert (
        said(stuck, "past")["invoice.paid over"][1] == "The next sweep takes it within 5 s and sets it aside."
    )


def test_without_a_worker_nothing_frees_itself(stuck: Stuck) -> None:
    stuck.in_hand("over", left_s=-14.0)
    stuck.overdue("late")
    stuck.house.run("UPDATE nottwice.workers SET seen_at = now() - interval '10 min'")
    assert heading(stuck) == "1 piece of work is stuck. 1 waits too long."
    assert said(stuck, "past")["invoice.paid over"][1] == "No worker runs, so no sweep comes. Start one."
    assert said(stuck, "waiting")["invoice.paid late"] == (
        "No worker runs.",
        "The first worker that starts and handles it takes it.",
    )


def test_after_an_outage_workers_have_their_time_to_renew(stuck: Stuck) -> None:
    stuck.in_hand("over", left_s=-14.0)
    stuck.house.run(
        "INSERT INTO nottwice.maintenance (duty, resume_at) VALUES ('sweep', now() + interval '50 s')"
    )
    assert heading(stuck) == "1 piece of work is stuck."
    assert said(stuck, "past")["invoice.paid over"][1].startswith("After an outage, its worker has until ")


def test_what_is_set_aside_says_by_which_error_or_by_whom(stuck: Stuck) -> None:
    stuck.failed("evt_1", ago_s=60.0)
    by_eva = stuck.overdue("evt_2")
    eva = stuck.house.db.run(lambda tx: people.person(tx, "local", "eva", "Eva Horn", "", Role.ENGINEER))
    stuck.house.db.run(lambda tx: by_hand.put_aside(tx, by_eva, 1, Act(eva, uuid4(), "wait for the shop")))
    stuck.given_up("RF-220")
    found = said(stuck, "aside")
    assert found["invoice.paid evt_1"] == (
        "Failed 5 of 5 times: ValueError: no such invoice",
        "An engineer or admin tries it again, or leaves it.",
    )
    why, then = found["invoice.paid evt_2"]
    assert re.fullmatch(r"Eva Horn set it aside at [\d:]{8} UTC\. “wait for the shop”", why), why
    assert then == "Nobody works on it until a person says so."
    why, then = found["✉ Refund notice: RF-220"]
    assert why == "Its time was over before a try got through. Last: The connection was refused."
    assert then == "Nothing goes out, unless a person tries again."


def test_what_nobody_handles_names_the_kind(stuck: Stuck) -> None:
    stuck.unhandled("evt_9")
    assert said(stuck, "unhandled")["invoice.voided evt_9"] == (
        "No running worker handles invoice.voided.",
        "The first worker with a handler takes it.",
    )


def test_each_way_to_wait_has_its_sentences(stuck: Stuck) -> None:
    stuck.retrying("tried")
    first, _ = stuck.in_line("ahead", "behind")
    stuck.overdue("late")
    stuck.ready("RF-220")
    stuck.running(worker(("billing", "refund"), name="w-gone"), stopped=True)
    stuck.stored("refund 7", age_s=900.0, type="refund")
    found = said(stuck, "waiting")
    assert found["invoice.paid tried"][0] == "Tried 2 of 5 times."
    assert re.fullmatch(r"Next try at .*[\d:]{8} UTC\.", found["invoice.paid tried"][1])
    assert found["invoice.paid behind"] == (
        f"Waits for an earlier event: {first} (ahead).",
        f"It goes when {first} has ended, which is in hand.",
    )
    assert re.fullmatch(
        r"Due for (60 min|1 h \d\d min); no worker has come to it\.", found["invoice.paid late"][0]
    )
    assert found["invoice.paid late"][1] == "The next free worker takes it."
    assert found["refund 7"][0].startswith("No running worker handles refund. w-gone did until ")
    assert found["✉ Refund notice: RF-220"][0].endswith("; no worker has come to it.")
    stuck.house.run(
        "INSERT INTO nottwice.provider_pauses (account, paused_until, reason) VALUES ('agentmail', now() + interval '1 h', '429')"
    )
    why, then = said(stuck, "waiting")["✉ Refund notice: RF-220"]
    assert why == "Account agentmail is paused: 429" and then.startswith("One send tries the account at ")


def test_words_of_strangers_do_not_turn_a_line_round(stuck: Stuck) -> None:
    turned = "x\u202egpj"
    stuck.failed("evt_1", error=f"{turned}\nsecond line")
    stuck.stored(turned, age_s=900.0, type=turned)
    shown = str([said(stuck, "aside"), said(stuck, "unhandled")])
    assert "⟨U+202E⟩" in shown and "\u202e" not in shown and "second line" not in shown
