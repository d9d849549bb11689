"""`console-10m`: what a person at the console waits for, with ten million finished events, a hundred thousand that live and ten
thousand sends in review; beside it, the same with a hundred thousand finished ones. `SCALE=0.1` makes the past smaller.

All of the console is real: its process, a Chromium with a fresh profile a visit, PostgreSQL as durable as in earnest. A line
each: the SQL of each screen (everything it asks on opening, the shared figures read anew), the time until a screen's own
figures are seen, until a filter has answered, until a decision is acknowledged, and what the server takes while five people
watch.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import psycopg
from playwright.sync_api import Browser, BrowserContext, Page

from dashboard import session
from dashboard.remembered import COOKIE
from tests.benchmarks.report import say
from tests.benchmarks.stage import Stage, percentile
from tests.browser.stage import WAIT_MS, browser, console, settled
from tests.dashboard.conftest import opened
from tests.fix_history import Scale, fill
from tests.fix_statements import watched

SCALE = float(os.environ.get("SCALE", "1"))
LARGE, SMALL = int(10_000_000 * SCALE), 100_000
LIVE, DESK, ADMIN = 100_000, 10_000, 1
ROUNDS, VISITS, FILTERS, DECISIONS = 5, 20, 9, 20
WATCHERS, WATCHED_S = 5, 30.0
SQL_MS, FIRST_S, FILTER_S, DECISION_S, TIMES, SERVER_MB, OF_A_CORE = 50.0, 1.0, 0.4, 0.6, 1.3, 300.0, 10.0
TABLE, FIGURE = "[data-testid='stDataFrame'] canvas", "[data-testid='stMetricValue']"
# What a screen's first figures are: its table, or its cards. `me` reads nothing: what any page of Streamlit takes here.
SCREENS = {
    "me": "[data-testid='stRadio']",
    "overview": FIGURE,
    "review": TABLE,
    "stuck": TABLE,
    "events": TABLE,
    "reprocess": "h1",
    "audit": TABLE,
    "health": TABLE,
}
SHOWN = "ready => document.querySelector(ready)?.checkVisibility() && document.querySelector(ready).getBoundingClientRect().height > 0"
ANSWERS = "before => document.querySelector('h1')?.innerText !== before && !document.querySelector('[data-stale=\"true\"]')"
READS = "words => document.querySelector('[data-testid=stMain]').innerText.includes(words)"
FILTERED = ("Set aside", "In hand", "Done")  # of each there is another number, so the page's answer changes
Line = dict[str, object]


@dataclass(frozen=True)
class Desk:
    """A ledger of one size, its console and that console's process."""

    events: int
    database: str
    login: str
    url: str
    process: psutil.Process
    sends: tuple[int, ...]


def console_10m(stage: Stage) -> Iterator[Line]:
    with ExitStack() as stack:
        started = stack.enter_context(browser(one_renderer=False))
        small, large = (stack.enter_context(_desk(stage, events)) for events in (SMALL, LARGE))
        yield from _statements(stage, large)
        for screen in SCREENS:
            beside, ours = (_first_figures(started, desk, screen) for desk in (small, large))
            yield _line(large, f"first figures of {screen}", ours, "s", FIRST_S) | _beside(ours, beside)
        beside, ours = (_filtered(started, desk) for desk in (small, large))
        yield _line(large, "a filter, median", ours, "s", FILTER_S) | _beside(ours, beside)
        yield _line(large, "a decision acknowledged, p95", _decided(started, large), "s", DECISION_S)
        yield from _five_watch(started, large)


@contextmanager
def _desk(stage: Stage, events: int) -> Iterator[Desk]:
    with stage.database() as name:
        with stage.connect(name) as owner:
            fill(owner, Scale(events, LIVE, DESK), lambda what: say(f"console-10m: {what}"))
            sends = _to_decide(owner)
        login = stage.cluster.url("nottwice_console", database=name)
        before = {child.pid for child in psutil.Process().children()}
        with console(login, anew=True) as url:
            (process,) = (one for one in psutil.Process().children() if one.pid not in before)
            yield Desk(events, name, login, url, process, sends)


def _to_decide(owner: psycopg.Connection[tuple[int]]) -> tuple[int, ...]:
    """Sends of a provider without keys: the form of each is the same."""
    rows = owner.execute(
        b"SELECT id FROM nottwice.actions WHERE state = 'needs_review' AND provider = 'inboxili' ORDER BY id LIMIT 40"
    ).fetchall()
    return tuple(row[0] for row in rows)


def _line(desk: Desk, what: str, ours: float, unit: str, limit: float) -> Line:
    return {"bench": "console-10m", "what": what, "ours": round(ours, 3), "unit": unit, "limit": limit, "events": desk.events,
            "load": round(os.getloadavg()[0], 2)}  # fmt: skip


def _beside(ours: float, small: float) -> Line:
    return {f"at {SMALL:,}": round(small, 3), "ratio": round(ours / small, 3), "ratio limit": TIMES}


# ── What is asked ─────────────────────────────────────────────────────────────────────────────────────


def _statements(stage: Stage, desk: Desk) -> Iterator[Line]:
    """In this process, by the same code: a browser's visit cannot tell which statement was whose.

    Beside the time, the processor time of the server's sessions, which a busy machine changes less.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        app = stack.enter_context(opened(desk.login, Path(folder)))
        owner = stack.enter_context(stage.connect(desk.database))
        app("me", person=ADMIN)
        watch = stack.enter_context(watched(session.house().database.engine))
        for screen in SCREENS:
            taken, used = [], []
            for _ in range(VISITS):
                session.house().read_anew()
                watch.forget()
                sessions = _sessions(owner)
                used_ms = _used_ms(sessions)
                app(screen, person=ADMIN, charts=True)
                taken.append(watch.seconds * 1000)
                used.append(_used_ms(sessions) - used_ms)
            slowest = max(watch.asked, key=lambda one: one.seconds)
            yield _line(desk, f"sql of {screen}, p95", percentile(taken, 0.95), "ms", SQL_MS) | {
                "median": round(median(taken), 2),
                "processor, p95": round(percentile(used, 0.95), 2),
                "statements": len(watch.asked),
                "slowest": f"{slowest.seconds * 1000:.1f} ms: {' '.join(slowest.sql.split())[:60]}",
            }


def _sessions(owner: psycopg.Connection[tuple[int]]) -> list[int]:
    rows = owner.execute(b"SELECT pid FROM pg_stat_activity WHERE usename = 'nottwice_console'").fetchall()
    return [row[0] for row in rows]


def _used_ms(sessions: list[int]) -> float:
    """On a processor since their start, by the kernel's own counting (proc(5), schedstat)."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in sessions) / 1e6


# ── What is waited for ────────────────────────────────────────────────────────────────────────────────


def _first_figures(started: Browser, desk: Desk, screen: str) -> float:
    """In a profile that has never seen this console, from asking for the address; the server is warm."""
    return median([_visit_s(started, f"{desk.url}/{screen}", SCREENS[screen]) for _ in range(ROUNDS + 1)][1:])


def _visit_s(started: Browser, address: str, ready: str) -> float:
    view = _profile(started, address)
    page = view.new_page()
    began = time.monotonic()
    page.goto(address, wait_until="commit")
    page.wait_for_function(
        SHOWN, arg=ready, polling="raf", timeout=WAIT_MS
    )  # `wait_for` looks twice a second only
    took_s = time.monotonic() - began
    view.close()
    return took_s


def _profile(started: Browser, address: str) -> BrowserContext:
    """A new one, which knows only that it acts as the admin: the first of the people sees no record but their own acts."""
    view = started.new_context(viewport={"width": 1280, "height": 800})
    view.add_cookies([{"name": COOKIE, "value": str(ADMIN), "url": address}])
    return view


def _filtered(started: Browser, desk: Desk) -> float:
    """From choosing a state on Events until the page's answer is another one."""
    with _page(started, desk, "/events") as page:
        return median([_filter_s(page, FILTERED[n % len(FILTERED)]) for n in range(FILTERS)])


def _filter_s(page: Page, state: str) -> float:
    before = page.locator("h1").first.inner_text()
    page.locator("[data-testid='stSelectbox']").filter(has_text="State").locator("input").click()
    option = page.get_by_role("option", name=state, exact=True)
    option.wait_for()
    began = time.monotonic()
    option.click()
    page.wait_for_function(ANSWERS, arg=before, polling="raf", timeout=WAIT_MS)
    took_s = time.monotonic() - began
    settled(page)
    return took_s


def _decided(started: Browser, desk: Desk) -> float:
    """From pressing the button that names the act until the page says that it was done."""
    with _page(started, desk, "/review") as page:
        return percentile([_decision_s(page, desk, send) for send in desk.sends[:DECISIONS]], 0.95)


def _decision_s(page: Page, desk: Desk, send: int) -> float:
    page.goto(f"{desk.url}/review?send={send}")
    page.locator("[data-testid='stRadio']").get_by_text("Do not send", exact=True).click()
    page.get_by_role("button", name="Our own records").click()
    page.get_by_label("Why? The audit keeps your words.").fill("Customer wrote that nothing came")
    settled(page)
    began = time.monotonic()
    page.get_by_role("button", name="Close without sending").click()
    page.wait_for_function(READS, arg="Closed without sending, by you", polling="raf", timeout=WAIT_MS)
    return time.monotonic() - began


@contextmanager
def _page(started: Browser, desk: Desk, path: str) -> Iterator[Page]:
    view = _profile(started, desk.url)
    page = view.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(desk.url + path)
    page.locator("h1").first.wait_for()
    settled(page)
    yield page
    view.close()


# ── What the server takes ─────────────────────────────────────────────────────────────────────────────


def _five_watch(started: Browser, desk: Desk) -> Iterable[Line]:
    with ExitStack() as stack:
        paths = ("/overview", "/overview", "/review", "/events", "/health")[:WATCHERS]
        for path in paths:
            stack.enter_context(_page(started, desk, path))
        used_s = _cpu_s(desk.process)
        time.sleep(WATCHED_S)  # what is measured is a span of time
        of_a_core = 100 * (_cpu_s(desk.process) - used_s) / WATCHED_S
        mb = desk.process.memory_info().rss / 1e6
    return (
        _line(desk, f"server memory, {WATCHERS} watch", mb, "MB", SERVER_MB),
        _line(desk, f"of a core, {WATCHERS} watch", of_a_core, "%", OF_A_CORE),
    )


def _cpu_s(process: psutil.Process) -> float:
    return sum(process.cpu_times()[:2])
