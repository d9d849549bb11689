"""Signing in for real: a provider's process, a console's process, a Chromium between them."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from ledger.database import Database
from tests.browser import oidc, stage
from tests.browser.conftest import Views
from tests.browser.gateway import gateway
from tests.databases import Databases

pytestmark = pytest.mark.browser

ADDRESSES = (
    "review?send=1", "overview", "stuck", "events?source=shop", "reprocess", "audit", "health", "me", "", "no-such-page",
)  # fmt: skip
FORGED = {
    "X-Forwarded-User": "bo",
    "X-Forwarded-Email": "bo.lindqvist@acme.example",
    "X-Forwarded-Groups": "desk",
    "X-Not-Twice-Secret": "",
}


class Desk:
    """The provider, the console, and the database behind it."""

    def __init__(self, provider: oidc.Provider, url: str, database: Database) -> None:
        self.provider, self.url, self.database = provider, url, database


@pytest.fixture(scope="module")
def desk(databases: Databases) -> Iterator[Desk]:
    with databases.lent() as owner, oidc.provider() as provider:
        database = Database(owner)
        login = database.engine.url.set(username="nottwice_console").render_as_string(hide_password=False)
        with oidc.console(login, provider) as url:
            yield Desk(provider, url, database)
        database.close()


@pytest.fixture
def person(views: Views) -> Iterator[BrowserContext]:
    """A browser of one's own, without cookies."""
    yield from lent(views, "somebody")


@pytest.fixture
def somebody_else(views: Views) -> Iterator[BrowserContext]:
    yield from lent(views, "somebody else")


def lent(views: Views, way: str) -> Iterator[BrowserContext]:
    context = views.profile(way)
    yield context
    context.set_extra_http_headers({})
    for page in context.pages:
        page.close()


def opened(person: BrowserContext, url: str) -> Page:
    page = person.new_page()
    page.goto(url)
    page.locator("h1").first.wait_for()
    stage.settled(page)
    return page


def heading(page: Page) -> str:
    return page.locator("h1").first.inner_text()


def test_a_fresh_server_gives_nothing_but_the_way_in(desk: Desk, person: BrowserContext) -> None:
    """The first visitor asks for a page at once, with headers that claim to be somebody."""
    person.set_extra_http_headers(FORGED)
    broken: list[str] = []
    page = person.new_page()
    page.on("console", lambda message: broken.append(message.text))
    for address in ADDRESSES:
        page.goto(f"{desk.url}/{address}")
        expect(page.locator("h1")).to_have_text("Sign in.")
        stage.settled(page)
        words = page.locator("[data-testid='stApp']").inner_text()
        assert not re.search("Overview|Review|Events|Audit|Ana|Bo|waits", words), words
    assert [line for line in broken if "Content Security Policy" in line] == []
    assert desk.database.run(lambda tx: tx.one("SELECT count(*) AS n FROM nottwice.people")).n == 0


def test_two_people_come_in_as_what_their_groups_say_and_go_out_again(
    desk: Desk, person: BrowserContext, somebody_else: BrowserContext
) -> None:
    ana = opened(person, f"{desk.url}/events?source=shop")
    desk.provider.lets_in(ana, desk.provider.knows("ana", name="Ana Soto", groups=["desk"]))
    assert ana.url == f"{desk.url}/events?source=shop", "back to what she asked for"
    ana.get_by_role("link", name="Ana Soto · support").click()
    expect(ana.get_by_text("You are support because of the group desk.")).to_be_visible()
    cookies = {cookie["name"]: cookie for cookie in person.cookies()}
    assert cookies["_streamlit_user"]["httpOnly"] and "nottwice_way_back" not in cookies

    eve = opened(somebody_else, f"{desk.url}/review")
    desk.provider.lets_in(eve, desk.provider.knows("eve", name="Eve Horn", groups=["watch"]))
    expect(eve.get_by_role("link", name="Eve Horn · viewer")).to_be_visible()
    assert eve.get_by_role("link", name="Audit").count() == 0
    tamper(somebody_else)
    assert heading(opened(somebody_else, f"{desk.url}/review")) == "Sign in."

    ana.get_by_role("button", name="Sign out").click()
    ana.wait_for_url(f"{desk.provider.url}/**")
    ana.get_by_role("button").first.click()  # the provider asks, too
    expect(ana.locator("h1")).to_have_text("Sign in.")
    assert heading(opened(person, f"{desk.url}/review")) == "Sign in."


def tamper(person: BrowserContext) -> None:
    """One letter of what the cookie says."""
    (cookie,) = [one for one in person.cookies() if one["name"] == "_streamlit_user"]
    payload, _, signature = cookie["value"].strip('"').rpartition(".")
    forged = payload[:20] + ("A" if payload[20] != "A" else "B") + payload[21:]
    person.add_cookies([{**cookie, "value": f"{forged}.{signature}"}])  # type: ignore[typeddict-item]


NOT_TRUSTED = "did not sign you in, or its word could not be trusted"
NOT_IN_ORDER: tuple[tuple[dict[str, object], str], ...] = (
    ({"aud": "other"}, NOT_TRUSTED),
    ({"iss": "https://evil.example"}, NOT_TRUSTED),
    ({"exp": 1_700_000_000}, NOT_TRUSTED),
    ({"email_verified": False}, "has not verified your e-mail address"),
)


def test_a_token_that_is_not_in_order_opens_nothing(desk: Desk, person: BrowserContext) -> None:
    page = opened(person, f"{desk.url}/review")
    for claims, words in NOT_IN_ORDER:
        desk.provider.lets_in(page, desk.provider.knows("mallory", groups=["desk"], **claims))
        expect(page.get_by_text(words)).to_be_visible()
        assert page.get_by_role("link", name="Review").count() == 0
    expect(page.get_by_text("mallory@acme.example")).to_be_visible()


def test_a_page_that_nobody_touches_ends_with_the_sign_in(desk: Desk, person: BrowserContext) -> None:
    ends = 0.0
    page = opened(person, f"{desk.url}/review")
    for seconds in (3, 10, 30):  # on a busy machine it may be over before the page is drawn
        ends = time.time() + seconds
        desk.provider.lets_in(
            page, desk.provider.knows("ana", name="Ana Soto", groups=["desk"], exp=int(ends))
        )
        if page.get_by_role("link", name="Ana Soto · support").is_visible():
            break
    expect(page.locator("h1")).to_have_text(re.compile(r"Your sign-in ended at \d\d:\d\d UTC\."))
    assert int(ends) <= time.time()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {"Host": "evil.example"}, 403),
        ("/_stcore/health", {"Host": "evil.example"}, 200),
        ("/_stcore/metrics", {}, 403),
        ("/_stcore/stream", {"Upgrade": "websocket"}, 403),
        ("/_stcore/stream", {"Upgrade": "websocket", "Origin": "http://evil.example"}, 403),
        ("/_stcore/stream", {"Upgrade": "websocket", "Origin": "SELF", "Host": "evil.example"}, 403),
        ("/_stcore/stream", {"Upgrade": "websocket", "Origin": "SELF"}, 101),
    ],
)
def test_nobody_else_speaks_to_it(desk: Desk, path: str, headers: dict[str, str], status: int) -> None:
    parts = urlsplit(desk.url)
    shake = {
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "bm90IHR3aWNlLCBub25jZQ==",
    }
    given = {name: value.replace("SELF", desk.url) for name, value in headers.items()}
    line = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=stage.READY_WITHIN_S)
    line.request("GET", path, headers=(shake if "Upgrade" in headers else {}) | given)
    assert line.getresponse().status == status
    line.close()


def test_behind_a_proxy_its_word_counts_and_nobody_elses(
    databases: Databases, person: BrowserContext
) -> None:
    with databases.lent() as owner, gateway() as gate:
        database = Database(owner)
        login = database.engine.url.set(username="nottwice_console").render_as_string(hide_password=False)
        with oidc.console_behind(gate.url, login) as url:
            gate.behind = url
            gate.says = {
                "X-Not-Twice-Secret": oidc.PROXY_SECRET,
                "X-Forwarded-User": "u-1",
                "X-Forwarded-Email": "zoé@acme.example",
                "X-Forwarded-Preferred-Username": "Zoé Ruiz".encode().decode("latin-1"),
                "X-Forwarded-Groups": "other,desk",
            }
            person.set_extra_http_headers(FORGED)
            page = opened(person, f"{gate.url}/me")
            expect(page.get_by_role("link", name="Zoé Ruiz · support")).to_be_visible()
            page.goto(url)
            expect(page.get_by_text("This console is not known under that name.")).to_be_visible()
            gate.says = {name: value for name, value in gate.says.items() if "Secret" not in name}
            page.goto(gate.url)
            expect(page.get_by_text(f"Sign in first: open {gate.url}.")).to_be_visible()
        database.close()
