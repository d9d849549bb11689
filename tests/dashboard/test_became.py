"""Delivered and bounced on the pages: apart from accepted, per recipient, in words, and nothing of it as markup."""

from __future__ import annotations

from ledger.records import Accepted
from tests.dashboard.conftest import App
from tests.dashboard.test_events import pages
from tests.fix_notices import Provider
from tests.fix_sends import KEYLESS, Sends


def subheaders(at: object) -> list[str]:
    return [one.value for one in at.subheader]  # type: ignore[attr-defined]


def test_snd_10_accepted_and_delivered_stand_apart(app: App, sends: Sends, provider: Provider) -> None:
    action_id = sends.proposed(KEYLESS)
    sends.tried(action_id, Accepted("<m1>"))
    at = app("review", send=str(action_id))
    assert "What became of it" in subheaders(at)
    assert any("No notice of delivery has come" in caption.value for caption in at.caption)

    provider.says("sent", "m1", "ann@example.com", at_s=-60)
    event = provider.event()
    provider.keep(provider.notice("bounced", "m1", "ann@example.com", detail="<b>5.1.1</b>"), event)
    provider.says("delivered", "m1", "bo@example.com")
    page = pages(app("review", send=str(action_id)))
    assert "✕ bounced" in page and "▲ delivered" in page and "bo@example.com" in page
    assert "before: left the provider" in page
    assert "Accepted, with a message number" in page  # what the answer said stands where it stood
    assert "<b>5.1.1</b>" not in page and "&lt;b&gt;5.1.1" in page

    told = app("events", event=str(event))
    assert not told.exception
    labels = [element.proto.label for element in told.main if element.type == "page_link"]
    assert labels == [f"It tells about send {action_id}", "Run it again…"]
    assert "✕ bounced" in pages(told) and "▲ delivered" not in pages(told)


def test_inb_11_a_notice_about_somebody_elses_mail_says_so(app: App, provider: Provider) -> None:
    event = provider.event()
    provider.keep(provider.notice("delivered", "theirs"), event)
    told = app("events", event=str(event))
    assert "▲ delivered" in pages(told)
    assert any("No send of ours is known by this message" in caption.value for caption in told.caption)


def test_an_uncertain_send_of_which_nothing_is_known_has_no_such_part(app: App, sends: Sends) -> None:
    at = app("review", send=str(sends.uncertain()))
    assert "What became of it" not in subheaders(at)
    assert "What we found" in subheaders(at)


def test_a_hint_is_a_row_of_what_we_found(app: App, sends: Sends, provider: Provider) -> None:
    action_id = sends.uncertain()
    provider.says("delivered", "<m1>")
    provider.give_hints()
    page = pages(app("review", send=str(action_id)))
    assert "Notice from inboxili" in page
    assert "A message to the same recipient was delivered at" in page and "(a hint, not a proof)" in page
    assert "ann@example.com" not in page.split("A message to the same recipient")[1].split("</td>")[0]
