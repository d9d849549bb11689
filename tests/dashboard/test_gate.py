"""What may ask at all, what every answer says to the browser, and that a sign-in leads back to where it began."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from dashboard.gate import Entry, Gate, Message, Receive, Scope, Send
from dashboard.way_back import kept, own_path

LOCAL = Entry()
DESK = Entry("https://desk.example.com")
PROXY = Entry("https://desk.example.com", "X-Secret", "sesame")
Headers = list[tuple[str, str]]


class Behind:
    """What stands behind the gate: answers everything, with the headers it is given."""

    def __init__(self, *headers: tuple[str, str]) -> None:
        self.headers = [(name.encode(), value.encode()) for name, value in headers]
        self.asked = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": self.headers})


def asked(
    entry: Entry,
    headers: Headers,
    path: str = "/",
    *,
    query: str = "",
    method: str = "",
    socket: bool = False,
    behind: Behind | None = None,
) -> tuple[Message, bool]:
    """The first message of the answer, and whether the request came through."""
    behind, sent = behind or Behind(), []
    scope = {
        "type": "websocket" if socket else "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
    }

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    with ThreadPoolExecutor(1) as beside:  # this thread may have a loop: that of the browser's tests
        beside.submit(lambda: asyncio.run(Gate(behind, entry)(scope, receive, send))).result()
    return sent[0], bool(behind.asked)


def said(message: Message) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in message["headers"]:
        found.setdefault(name.decode().lower(), []).append(value.decode())
    return found


@pytest.mark.parametrize(
    ("entry", "hosts", "comes_in"),
    [
        *((LOCAL, [host], True) for host in ("127.0.0.1:8501", "localhost:8501", "[::1]:8501", "LOCALHOST")),
        *((LOCAL, [host], False) for host in ("evil.example", "evil.example:8501", "127.0.0.1.nip.io", "0.0.0.0", "")),
        *((LOCAL, hosts, False) for hosts in ([], ["localhost", "localhost"], ["localhost", "evil.example"])),
        *((DESK, [host], True) for host in ("desk.example.com", "desk.example.com:443", "Desk.Example.com")),
        *((DESK, [host], False) for host in ("127.0.0.1:8501", "desk.example.com:8501", "a@desk.example.com", "x/y", ":")),
    ],
)  # fmt: skip
def test_only_who_calls_the_console_by_its_name_is_answered(
    entry: Entry, hosts: list[str], comes_in: bool
) -> None:
    answer, through = asked(entry, [("Host", host) for host in hosts])
    assert (through, answer["status"]) == ((True, 200) if comes_in else (False, 403))


@pytest.mark.parametrize(
    ("entry", "headers", "comes_in"),
    [
        (LOCAL, [("Origin", "http://127.0.0.1:8501")], True),
        (LOCAL, [], False),
        (LOCAL, [("Origin", "null")], False),
        (LOCAL, [("Origin", "http://127.0.0.1:9999")], False),
        (LOCAL, [("Origin", "https://127.0.0.1:8501")], False),
        (LOCAL, [("Origin", "http://evil.example")], False),
        (LOCAL, [("Origin", "http://127.0.0.1:8501"), ("Origin", "http://evil.example")], False),
        (DESK, [("Origin", "https://desk.example.com")], True),
        (DESK, [("Origin", "http://desk.example.com")], False),
    ],
)
def test_a_websocket_is_of_a_page_of_ours(entry: Entry, headers: Headers, comes_in: bool) -> None:
    host = ("Host", "desk.example.com" if entry.origin else "127.0.0.1:8501")
    answer, through = asked(entry, [host, *headers], "/_stcore/stream", socket=True)
    assert through is comes_in
    assert answer["type"] == ("websocket.accept" if comes_in else "websocket.close")


@pytest.mark.parametrize("socket", [False, True])
@pytest.mark.parametrize(
    ("secrets", "comes_in"), [(["sesame"], True), ([], False), (["Sesame"], False), (["sesame"] * 2, False)]
)
def test_behind_a_proxy_nothing_is_answered_without_its_secret(
    secrets: list[str], comes_in: bool, socket: bool
) -> None:
    headers = [("Host", "desk.example.com"), ("Origin", "https://desk.example.com")]
    _, through = asked(PROXY, [*headers, *(("x-secret", one) for one in secrets)], socket=socket)
    assert through is comes_in


@pytest.mark.parametrize("path", ["/_stcore/metrics", "/_stcore/agent/openapi.json", "/_stcore/agent"])
def test_what_nobody_here_asks_for_is_shut(path: str) -> None:
    assert asked(LOCAL, [("Host", "localhost")], path)[0]["status"] == 403


def test_a_supervisor_may_ask_whether_it_is_well() -> None:
    assert asked(PROXY, [("Host", "10.0.0.7:8501")], "/_stcore/health")[1]


def test_every_answer_tells_the_browser_what_it_may_do() -> None:
    answer, _ = asked(DESK, [("Host", "desk.example.com")])
    headers = {name: only for name, (only,) in said(answer).items()}
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self' wss://desk.example.com"
    assert "unsafe" not in policy["script-src"] and "sha256-" in policy["script-src"]
    assert headers["x-frame-options"] == "DENY" and headers["x-content-type-options"] == "nosniff"
    assert headers["strict-transport-security"].startswith("max-age=")
    local, _ = asked(LOCAL, [("Host", "127.0.0.1:8501")])
    assert "ws://127.0.0.1:8501" in said(local)["content-security-policy"][0]
    assert "strict-transport-security" not in said(local), "there is no https on this machine"


def test_cookies_of_a_console_behind_https_travel_by_https_alone() -> None:
    behind = Behind(("Set-Cookie", "a=1; HttpOnly"), ("Set-Cookie", "b=2; Secure"))
    answer, _ = asked(DESK, [("Host", "desk.example.com")], behind=behind)
    assert said(answer)["set-cookie"] == ["a=1; HttpOnly; Secure", "b=2; Secure"]
    behind = Behind(("Set-Cookie", "a=1; HttpOnly"))
    answer, _ = asked(LOCAL, [("Host", "localhost")], behind=behind)
    assert said(answer)["set-cookie"] == ["a=1; HttpOnly"]


# ── The way back ──────────────────────────────────────────────────────────────────────────────────────

HOME = ("Host", "desk.example.com")
SIGNED_IN = (("Location", "/"), ("Set-Cookie", "_streamlit_user=x; HttpOnly"))


def test_a_sign_in_leads_back_to_where_it_began() -> None:
    begun, _ = asked(DESK, [HOME, ("Referer", "https://desk.example.com/review?send=7")], "/auth/login")
    (cookie,) = said(begun)["set-cookie"]
    assert "HttpOnly" in cookie and "Secure" in cookie and "Path=/oauth2callback" in cookie
    came = [HOME, ("Cookie", cookie.partition(";")[0])]
    ended, _ = asked(DESK, came, "/oauth2callback", query="state=x&code=y", behind=Behind(*SIGNED_IN))
    headers = said(ended)
    assert headers["location"] == ["/review?send=7"]
    assert any("nottwice_way_back=;" in one and "Max-Age=0" in one for one in headers["set-cookie"])
    assert not any("nottwice_not_signed_in" in one for one in headers["set-cookie"])


@pytest.mark.parametrize(
    ("query", "told"), [("state=x&code=y", True), ("error=access_denied&state=x", True), ("", False)]
)
def test_a_sign_in_that_came_to_nothing_is_told(query: str, told: bool) -> None:
    gone = ("Set-Cookie", '_streamlit_user=""; expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=0; Path=/')
    ended, _ = asked(DESK, [HOME], "/oauth2callback", query=query, behind=Behind(("Location", "/"), gone))
    assert any("nottwice_not_signed_in=1" in one for one in said(ended)["set-cookie"]) is told
    assert said(ended)["location"] == ["/"]


@pytest.mark.parametrize(
    "referer",
    ["https://evil.example/review", "https://desk.example.com.evil.example/", "http://desk.example.com/review", "", "/review"],
)  # fmt: skip
def test_a_foreign_page_is_no_way_back(referer: str) -> None:
    assert own_path(referer, "https://desk.example.com") == ""


@pytest.mark.parametrize(
    "path",
    ["//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nX: y", "/a b", "/ü", "", "review"],
)
def test_a_forged_cookie_leads_nowhere_else(path: str) -> None:
    assert kept(f"nottwice_way_back={quote(path, safe='')}") == "/"
    assert kept(f"a=b; nottwice_way_back={quote('/audit?x=1', safe='')}") == "/audit?x=1"
