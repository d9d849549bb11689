"""The page with which a browser begins: Streamlit's own, and what makes its first figures come sooner.

Streamlit's page asks under its own address first whether a server is there, is refused, and waits 100 ms before it asks at
the right one; and it fetches the code of a table only when the first table is on the way. Both are told ahead here.
"""

from __future__ import annotations

import re
from functools import cache

from dashboard.kept_files import FOLDER, parts_of

A_PAGE = re.compile(r"/[a-z-]*")
# Of each page, what its first figures are drawn with; of any other, what every page has.
EVERYWHERE = ("Html", "Button", "ButtonGroup")
FIGURES = {
    "/overview": ("Metric", "PageLink"),
    "/me": ("Radio",),
    **dict.fromkeys(("/", "/review", "/stuck", "/events", "/audit", "/health"), ("DataFrame",)),
}
# Always the same word for word, so that the browser can be told to run these and no others. (Streamlit 1.67, its `window.__streamlit`:
# where its server is; with the host's wishes, which nobody has here, it opens the socket before it has asked for them.)
WHERE = "window.__streamlit = {BACKEND_BASE_URL: new URL('../..', document.querySelector('script[src]').src).href}"
AT_ONCE = f"{WHERE[:-1]}, HOST_CONFIG: {{allowedOrigins: [location.origin], useExternalAuthToken: false}}}}"
SCRIPTS = (WHERE, AT_ONCE)
HEADERS = [(b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-cache")]
Answer = tuple[list[tuple[bytes, bytes]], bytes]


def at_address(path: str, *, signs_in: bool) -> Answer | None:
    """The page at an address of this console, with its headers; None for what is no page.

    Where people sign in here, Streamlit's socket carries a token that its server gives with the first answer: it is asked
    first, as always.
    """
    if not A_PAGE.fullmatch(path):
        return None
    body = _page(path if path in FIGURES else "", signs_in)
    return [*HEADERS, (b"content-length", b"%d" % len(body))], body


@cache
def _page(path: str, signs_in: bool) -> bytes:
    ahead = f"<script>{WHERE if signs_in else AT_ONCE}</script>"
    text = streamlits()
    for part in parts_of((*EVERYWHERE, *FIGURES.get(path, ()))):
        if part not in text:
            ahead += f'<link rel="modulepreload" crossorigin href="{part}">'
    return text.replace("</head>", f"{ahead}</head>", 1).encode()


@cache
def streamlits() -> str:
    """As it is installed."""
    return (FOLDER / "index.html").read_text(encoding="utf-8")
