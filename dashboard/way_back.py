"""After the sign-in, back to the address that was asked for. Streamlit 1.67 leads everybody to the first page.

The page from which the sign-in began is kept in a cookie for the time of the sign-in. It is a path of this console
alone, so that nobody can be led elsewhere.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, unquote, urlsplit

Headers = list[tuple[bytes, bytes]]

LOGIN, CALLBACK, BASE = "/auth/login", "/oauth2callback", "/"
WAY, FAILED = "nottwice_way_back", "nottwice_not_signed_in"
WAY_S, FAILED_S = 600, 30  # a sign-in with a second factor takes minutes; a failure is told once
CHARACTERS_MAX = 1000
SIGNED_IN = b"_streamlit_user="


class Way:
    """One request, as far as the way back is concerned."""

    def __init__(self, path: str, query: bytes, referers: list[str], cookies: list[str]) -> None:
        self._path, self._query = path, query
        self._referer = referers[0] if len(referers) == 1 else ""
        self._cookies = "; ".join(cookies)

    def led_back(self, headers: Headers, ours: str) -> Headers:
        """The answer's headers, with what keeps the way or leads back on it."""
        if self._path == LOGIN and (asked := own_path(self._referer, ours)):
            return [*headers, _cookie(WAY, quote(asked, safe=""), CALLBACK, WAY_S)]
        if self._path == CALLBACK:
            return self._from_provider(headers)
        return headers

    def _from_provider(self, headers: Headers) -> Headers:
        signed_in = any(name.lower() == b"set-cookie" and _stays(value) for name, value in headers)
        asked = kept(self._cookies)
        led = [
            (n, asked.encode() if n.lower() == b"location" and v == BASE.encode() else v) for n, v in headers
        ]
        told = [] if signed_in or not self._query else [_cookie(FAILED, "1", "/", FAILED_S)]
        return [*led, _cookie(WAY, "", CALLBACK, 0), *told]


def _stays(cookie: bytes) -> bool:
    """Whether somebody is signed in by it; who was refused has theirs taken away."""
    return cookie.startswith(SIGNED_IN) and b"max-age=0" not in cookie.lower()


def own_path(address: str, ours: str) -> str:
    """Path and query of a page of this console; "" for any other address."""
    if not address.startswith(f"{ours}/") or len(address) > CHARACTERS_MAX:
        return ""
    parts = urlsplit(address)
    return _plain(parts.path + (f"?{parts.query}" if parts.query else ""))


def kept(cookies: str) -> str:
    """The path that was kept, else the first page."""
    try:
        found = SimpleCookie(cookies).get(WAY)
    except CookieError:
        return BASE
    return _plain(unquote(found.value)) if found else BASE


def _plain(path: str) -> str:
    """A path of this console, and nothing that a browser could take for another one: no `//`, no `\\`, no control."""
    safe = path.startswith("/") and not path.startswith("//") and "\\" not in path
    return path if safe and path.isascii() and path.isprintable() and " " not in path else BASE


def _cookie(name: str, value: str, path: str, seconds: int) -> tuple[bytes, bytes]:
    said = f"{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax"
    return b"set-cookie", said.encode()
