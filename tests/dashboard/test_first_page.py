"""What the gate gives by itself: Streamlit's files as they are installed, and its page with what lets figures come sooner."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest

from dashboard import first_page, kept_files
from dashboard.browser_rules import INLINE, rules_for
from dashboard.first_page import EVERYWHERE, FIGURES
from dashboard.gate import Entry
from tests.dashboard.test_gate import DESK, LOCAL, PROXY, asked, said

SIGNED_IN_HERE = Entry("https://desk.example.com", signs_in=True)
SCRIPT = "/static/js/" + next((kept_files.FOLDER / "static" / "js").glob("index.*.js")).name
Headers = list[tuple[str, str]]


def page(path: str, *, signs_in: bool = False) -> str:
    found = first_page.at_address(path, signs_in=signs_in)
    assert found is not None
    return found[1].decode()


def hosts(entry: Entry) -> Headers:
    return [("Host", "desk.example.com" if entry.origin else "127.0.0.1:8501")]


@pytest.mark.parametrize("path", [SCRIPT, "/review", "/"])
def test_files_and_pages_are_given_without_asking_further(path: str) -> None:
    answer, further = asked(LOCAL, hosts(LOCAL), path, method="GET")
    assert answer["status"] == 200 and not further
    assert "content-security-policy" in said(answer)


@pytest.mark.parametrize(("entry", "headers"), [(LOCAL, [("Host", "evil.example")]), (PROXY, hosts(PROXY))])
@pytest.mark.parametrize("path", [SCRIPT, "/review"])
def test_strangers_get_neither(entry: Entry, headers: Headers, path: str) -> None:
    answer, further = asked(entry, headers, path, method="GET")
    assert answer["status"] == 403 and not further


@pytest.mark.parametrize(
    ("path", "method"),
    [
        (SCRIPT, "HEAD"),
        ("/review", "POST"),
        *((path, "GET") for path in ("/static/../app.py", "/static/js", "/static/js/none.js", "/_stcore/host-config", "/auth/login")),
    ],
)  # fmt: skip
def test_whatever_else_is_asked_goes_on_to_streamlit(path: str, method: str) -> None:
    assert asked(DESK, hosts(DESK), path, method=method)[1]


def test_files_are_those_installed_and_a_browser_keeps_them() -> None:
    found = kept_files.found(SCRIPT)
    assert found is not None
    headers, body = dict(found[0]), found[1]
    assert body == (kept_files.FOLDER / SCRIPT[1:]).read_bytes()
    assert headers[b"content-type"] == b"text/javascript" and headers[b"content-length"] == b"%d" % len(body)
    assert b"immutable" in headers[b"cache-control"]


@pytest.mark.parametrize("signs_in", [False, True])
def test_each_script_in_a_page_is_one_that_the_browser_is_told_to_run(signs_in: bool) -> None:
    policy = dict(rules_for("http://127.0.0.1:8501"))[b"content-security-policy"].decode()
    scripts = INLINE.findall(page("/review", signs_in=signs_in))
    assert len(scripts) == 2
    for script in scripts:
        assert f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in policy


def test_a_browser_asks_for_its_token_first_where_people_sign_in_here() -> None:
    answer, _ = asked(SIGNED_IN_HERE, hosts(SIGNED_IN_HERE), "/review", method="GET")
    assert said(answer)["content-length"] == [str(len(page("/review", signs_in=True).encode()))]
    assert "HOST_CONFIG" not in page("/review", signs_in=True) and "HOST_CONFIG" in page("/review")


@pytest.mark.parametrize("path", FIGURES)
def test_what_a_page_is_drawn_with_is_there_and_fetched_ahead(path: str) -> None:
    ahead = set(re.findall(r'(?:href|src)="\.(/static/js/[^"]+)"', page(path)))
    assert all(kept_files.found(one) for one in ahead)
    for name in (*EVERYWHERE, *FIGURES[path]):
        parts = kept_files.parts_of([name])
        assert any(f"/{name}." in part for part in parts), f"Streamlit has no {name} any more"
        assert {part.removeprefix(".") for part in parts} <= ahead
