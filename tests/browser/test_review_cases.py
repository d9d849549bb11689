"""Cases from the field at the review desk, in a real browser: keys that are held, two reviewers, lines that break."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Hall
from tests.browser.stage import WAIT_MS, settled
from tests.browser.test_review import acts, choose, slowed, state, under_way
from tests.fix_sandbox import until
from tests.fix_seed import ANSWER, RECEIPT, mail

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]
CLOSED = [("closed without sending", "done")]


def test_ui_05_enter_held_is_one_decision(hall: Hall, visit: Visit) -> None:
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    slowed(hall.house, send, 1.0)
    page = visit(hall, f"/review?send={send}")
    choose(page, "Do not send")
    for _ in range(4):  # in the field for the reason it presses nothing
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    assert acts(hall.database, send) == []
    page.get_by_role("button", name="Close without sending").focus()
    for _ in range(8):  # a key that is down again without having been up is a repeat, as of a held key
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    done = page.get_by_text("Closed without sending, by you").or_(page.get_by_text("Already done"))
    expect(done.first).to_be_visible(timeout=WAIT_MS)
    assert page.locator("[data-testid='stException']").count() == 0
    assert acts(hall.database, send) == CLOSED and state(hall.database, send) == "closed"


def test_ui_07_of_two_reviewers_one_decides_and_the_other_is_told_then_and_later(
    hall: Hall, visit: Visit
) -> None:
    """Approve and decline at once, then again on a page that is stale since a while."""
    first, second = (
        hall.house.proposed(ANSWER, mail("eva@example.com", f"Re: refund {n}"), about=f"Re: refund {n}")
        for n in (1, 2)
    )
    slowed(hall.house, first, 1.0)
    ana, bo = visit(hall, f"/review?send={first}"), visit(hall, f"/review?send={first}", as_="Bo Lindqvist")
    ana.get_by_role("button", name="Approve exactly this text").click()
    bo.get_by_role("button", name="Do not send this").click()
    expect(ana.get_by_text("Goes out at").or_(ana.get_by_text("Not done.")).first).to_be_visible(
        timeout=WAIT_MS
    )
    expect(bo.get_by_text("Declined, by you").or_(bo.get_by_text("Not done.")).first).to_be_visible(
        timeout=WAIT_MS
    )
    assert sorted(outcome for _, outcome in acts(hall.database, first)) == ["done", "refused"]
    lost = [page for page in (ana, bo) if page.get_by_text("was first.").count()]
    assert len(lost) == 1

    for page in (ana, bo):
        page.goto(f"{hall.url}/review?send={second}")
        page.get_by_role("button", name="Approve exactly this text").wait_for(timeout=WAIT_MS)
    ana.get_by_role("button", name="Approve exactly this text").click()
    expect(ana.get_by_text("Goes out at")).to_be_visible(timeout=WAIT_MS)
    expect(bo.get_by_text("It changed. Show it as it is now")).to_be_visible(timeout=WAIT_MS)
    bo.get_by_role("button", name="Do not send this").click()
    expect(bo.get_by_text("Not done. Ana Soto was first.")).to_be_visible(timeout=WAIT_MS)
    expect(bo.get_by_text("approved this at")).to_be_visible()
    assert acts(hall.database, second) == [("approved", "done"), ("declined", "refused")]


# ── A line that breaks ────────────────────────────────────────────────────────────────────────────────


class Line:
    """A TCP proxy in front of a console whose connections can be cut."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End every connection; new ones are taken."""
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._open.clear()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open += [near, far]
                for a, b in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=(a, b), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while some := source.recv(65_536):
            target.sendall(some)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def breakable(hall: Hall) -> Iterator[tuple[Hall, Line]]:
    line = Line(int(urlsplit(hall.url).port or 0))
    yield replace(hall, url=line.url), line
    line.close()


def back_after_a_cut(page: Page, line: Line) -> None:
    """Cut, and wait until the page has come back by itself: what is pressed on a dead line is pressed in vain."""
    with page.expect_websocket(timeout=WAIT_MS) as again:
        line.cut()
    assert not again.value.is_closed()
    page.wait_for_selector("[data-testid='stApp'][data-test-connection-state='CONNECTED']", timeout=WAIT_MS)
    settled(page)


def test_ui_09_a_cut_line_repeats_no_decision_and_forgets_none(hall: Hall, visit: Visit) -> None:
    """Cut before, while and after a decision is carried out; the page comes back by itself and says what happened."""
    send = hall.house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    slowed(hall.house, send, 1.0)
    with breakable(hall) as (behind, line):
        page = visit(behind, f"/review?send={send}")
        back_after_a_cut(page, line)
        choose(page, "Do not send")
        settled(page)
        page.get_by_role("button", name="Close without sending").click()
        under_way(hall.database)
        line.cut()
        until(lambda: acts(hall.database, send) == CLOSED, WAIT_MS / 1000)
        done = page.get_by_text("Closed without sending, by you")
        page.reload()
        expect(done).to_be_visible(timeout=WAIT_MS)
        back_after_a_cut(page, line)
        expect(done).to_be_visible(timeout=WAIT_MS)
        assert acts(hall.database, send) == CLOSED
        page.get_by_role("button", name="Act as Bo Lindqvist").click()
        expect(page.get_by_text("Closed without sending, by Ana Soto")).to_be_visible(timeout=WAIT_MS)
        expect(page.get_by_text("You act as Bo Lindqvist").first).to_be_visible(timeout=WAIT_MS)
        settled(page)
        page.reload()  # which makes nobody another person
        expect(page.get_by_role("link", name="Bo Lindqvist · admin")).to_be_visible(timeout=WAIT_MS)
    assert acts(hall.database, send) == CLOSED
