"""UI-01 on every screen: words of strangers in every field that can hold them, with a server that listens whether any page asks it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from ledger import actions, payload
from ledger.database import Database, Transaction
from ledger.events import endings
from ledger.records import Email, Proposal
from tests.browser.conftest import Hall, built
from tests.browser.stage import WAIT_MS, settled
from tests.databases import Databases
from tests.fix_canary import Canary, canary
from tests.fix_events import Ledger, delivery, unusable, worker
from tests.fix_seed import House, rules

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]

# Rows that processes and people leave, in which every free text is a stranger's.
ROWS = (
    "INSERT INTO nottwice.people (issuer, subject, name, email) VALUES ('https://id.example', :text, :text, :text)",
    """INSERT INTO nottwice.audit (person_id, role, act, entity, entity_id, outcome, why, looked_at, known, state_before,
                                   state_after, detail)
       SELECT id, 'admin', :text, 'action', :send, 'refused', :text, ARRAY[:text], :text, :text, :text, :text
       FROM nottwice.people WHERE subject = :text""",
    "INSERT INTO nottwice.provider_pauses (account, paused_until, reason) VALUES (:text, now() + interval '1 h', :text)",
    """INSERT INTO nottwice.requests (action_id, action_version, content_digest, wish, requested_by, expires_at, why, looked_at)
       SELECT :asked, 1, '', 'resend_new_key', id, now() + interval '1 h', :text, ARRAY[:text]
       FROM nottwice.people WHERE subject = :text""",
    """INSERT INTO nottwice.lookups (action_id, account, due_at, done_at, outcome, words)
       VALUES (:send, 'inboxili', now(), now(), 'unanswered', :text)""",
    """INSERT INTO nottwice.reprocess_runs (id, mode, state, selection, why, requested_by, requested_role, row_count, list_digest,
                                            needs_second, pace_per_s, under_way_max, begun_at, ended_at)
       OVERRIDING SYSTEM VALUE SELECT 1, 'preview', 'done', :text, :text, id, 'admin', 1, '', false, 1, 1, now(), now()
       FROM nottwice.people WHERE subject = :text""",
    """INSERT INTO nottwice.reprocess_rows (id, run_id, event_id, state, reason, began_at, ended_at, found_new)
       OVERRIDING SYSTEM VALUE VALUES (1, 1, :event, 'failed', :text, now(), now(), 1)""",
    """INSERT INTO nottwice.reprocess_findings (row_id, namespace, event_id, found, kind, action_key, key_digest, about, content,
                                                recipients, subject, content_digest)
       VALUES (1, 'acme', :event, 'new', :text, :text, '', :text, 'text', ARRAY[:text], :text, '')""",
    """INSERT INTO nottwice.together (id, decision, cause, state, row_count, why, looked_at, requested_by, needs_second, expires_at)
       OVERRIDING SYSTEM VALUE SELECT 1, 'do_not_send', 'x', 'waiting', 1, :text, ARRAY[:text], id, true, now() + interval '1 h'
       FROM nottwice.people WHERE subject = :text""",
    """INSERT INTO nottwice.together_rows (together_id, action_id, seen_version, content_digest, result, reason)
       VALUES (1, :send, 1, '', 'waiting', :text)""",
    """UPDATE nottwice.events SET state = 'failed', due_at = NULL, ended_at = now(), last_error = :text WHERE id = :event""",
)
WORKER = "INSERT INTO nottwice.workers (id, name) VALUES (:id, :name)"
# Whatever of the page could load or run something that a stranger named, or that only a stranger's markup makes.
FOREIGN = """port => [...document.querySelectorAll('*')].filter(one =>
    [...one.attributes].some(a => a.value.includes(':' + port) && !['value', 'title', 'aria-label'].includes(a.name))
    || (one.closest('[data-testid=stMain]') && one.matches("iframe, object, embed, .katex, img:not([alt]), [onerror], [onload]"))
    || (['B', 'A', 'H1'].includes(one.tagName) && ['bold', 'APPROVED', 'x', 'b'].includes(one.textContent))
    || one.matches("a[href*=evil]")).map(one => one.outerHTML)"""


class Strange(NamedTuple):
    """A house in which a stranger wrote every word, and the server that its pages must not ask."""

    hall: Hall
    bird: Canary
    words: str
    ids: dict[str, int]


UNCHANGED_S = 600.0  # nothing happens in this house: a page that is drawn anew says the same


@pytest.fixture(scope="module")
def strange(databases: Databases, held_port: int) -> Iterator[Strange]:
    with canary() as bird, built(databases, held_port, UNCHANGED_S) as hall:
        bird.lives()
        words = bird.words()
        yield Strange(hall, bird, words, fill(hall, words))


def hostile(database: Database, text: str) -> dict[str, int]:
    """An event, a conflict and a quarantined element in which every word of a stranger is this text."""
    kind_of = text[:100]  # a type has 200 bytes at most
    book, one = Ledger(database), worker(("shop", kind_of), name=text)
    database.run(lambda tx: tx.execute(WORKER, id=one.id, name=text) and None)
    body = json.dumps({text: text, "n": 1}).encode()
    first = delivery(text, type=kind_of, body=body, delivery_id=text, content_type=text)
    (answer,) = book.accept(first)
    book.accept(delivery(text, type=kind_of, body=json.dumps({text: text, "n": 2}).encode()))
    claimed = book.claim_one(one)
    kind = rules(f"mail {text[:20]}", key=False, why=text)
    email = Email(to=(text,), subject=text, text=text)
    proposal = Proposal("acme", text, kind, email.content(), email.to, text, event_id=claimed.event.id)
    database.run(lambda tx: actions.propose(tx, proposal))
    database.run(lambda tx: endings.fail(tx, claimed, error=text, base_s=2, chance=0))
    book.accept(unusable(body, reason=text))
    conflict = book.value("SELECT id FROM nottwice.conflicts WHERE event_id = :id", id=answer.event_id)
    quarantined = book.value("SELECT id FROM nottwice.quarantine WHERE reason = :text", text=text)
    return {"event": answer.event_id or 0, "conflict": int(conflict), "quarantined": int(quarantined)}


def told(house: House, text: str) -> int:
    """An uncertain send of which a stranger wrote every word."""
    email = Email(to=(text,), subject=text, text=text, sender=text, reply_to=(text,), html=text)
    send = house.uncertain(rules("receipt", key=False, why=text), email, about=text, ago_s=600)
    house.evidence(send, text, text, "sent")
    return send


def fill(hall: Hall, text: str) -> dict[str, int]:
    ids = hostile(hall.database, text)
    ids["send"], ids["asked"], *_ = (told(hall.house, text) for _ in range(6))  # five share a cause

    def rest(tx: Transaction) -> int:
        tx.execute("SET LOCAL session_replication_role = replica")
        for sql in ROWS:
            tx.execute(sql, text=text, **{name: id_ for name, id_ in ids.items() if f":{name}" in sql})
        return int(tx.one("SELECT max(id) AS id FROM nottwice.audit WHERE why = :text", text=text).id)

    return ids | {"entry": hall.database.run(rest)}


def press(page: Page, *names: str) -> None:
    """What is folded, masked or in another segment is drawn as well."""
    for name in names:
        settled(page)
        page.get_by_role("button", name=name).or_(page.get_by_text(name)).first.click()
    settled(page)


class Stop(NamedTuple):
    """An address, what to wait for, what to press, and where every word must stand as it was written."""

    path: str
    ready: str
    presses: tuple[str, ...] = ()
    says: tuple[str, ...] = ()


HEAD, FACTS, TABLE = "h1.nt-h1", "dl.nt-facts", "canvas"
IN_SEND = (HEAD, "table.nt-ev", "dl.nt-mail", FACTS, "[data-testid='stText']")
DESK = (
    Stop("/review", TABLE, ("Second person ·", "Decided today ·")),
    Stop("/review?send={send}", HEAD, ("Tries ·", "Show the text", "The HTML part"), IN_SEND),
    Stop("/review?send={asked}", HEAD, ("looked at, and why",), ("[data-testid='stText']",)),
    Stop("/review?cause={send}", TABLE),
    Stop("/review?list=1", TABLE, ("looked at, and why",), ("[data-testid='stText']",)),
)
EVENTS = (
    Stop("/events", TABLE, ("Conflicts ·", "Quarantine ·")),
    Stop("/events?type=%3Cimg%20src=x%3E&source=![x](http://evil.example)&show=%3Cb%3E", "h1"),
    Stop("/events?event={event}", HEAD, ("Show the content", "The last error"), ("ol.nt-line",)),
    Stop("/events?conflict={conflict}", HEAD, ("Show both contents",), (FACTS,)),
    Stop("/events?quarantined={quarantined}", HEAD, ("Show the content",), (FACTS,)),
)
THE_REST = (
    Stop("/overview", "h1"),
    Stop("/stuck?show=aside", TABLE, ("Open the oldest",)),
    Stop("/reprocess?run=1", "h1"),
    Stop("/reprocess?event={event}", "h1"),
    Stop("/audit", TABLE),
    Stop("/audit?entry={entry}", "[role=dialog]", (), ("[role=dialog] dl.nt-mail",)),
    Stop("/health", "h1"),
)


@pytest.mark.parametrize("walk", [DESK, EVENTS, THE_REST], ids=["review", "events", "the rest"])
def test_ui_01_no_screen_asks_a_stranger_for_anything_or_draws_what_they_wrote_as_markup(
    strange: Strange, visit: Visit, walk: tuple[Stop, ...]
) -> None:
    hall, bird, done = strange.hall, strange.bird, list[str]()
    first, *others = (stop.path.format_map(strange.ids) for stop in walk)
    page = visit(
        hall,
        first,
        as_="Bo Lindqvist",
        hears=lambda page: page.on("dialog", lambda dialog: done.append(dialog.message)),
    )
    looked_at(page, walk[0], strange)
    for stop, address in zip(walk[1:], others, strict=True):
        page.goto(hall.url + address)
        looked_at(page, stop, strange)
    assert done == [] and bird.heard == []


def looked_at(page: Page, stop: Stop, strange: Strange) -> None:
    """The page as it is once all that is folded is open: text, and nothing that was made or loaded by it."""
    expect(page.locator(stop.ready).first).to_be_visible(timeout=WAIT_MS)
    press(page, *stop.presses)
    for place in stop.says:
        said = " ".join(page.locator(place).all_inner_texts())
        assert payload.shown(strange.words) in said, (stop.path, place)
    assert page.locator("[data-testid='stException']").count() == 0, stop.path
    assert page.evaluate(FOREIGN, str(strange.bird.port)) == [], stop.path
    assert str(strange.bird.port) not in page.title()
