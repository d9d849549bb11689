"""What every answer tells the browser: nothing from elsewhere, nothing to elsewhere, in nobody's frame, no script but ours."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache, lru_cache
from hashlib import sha256

from dashboard.first_page import SCRIPTS, streamlits
from dashboard.remembered import SCRIPT, TO_TOP

INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
YEAR_S = 31_536_000
ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # the way back after a sign-in is read from it
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


@lru_cache(maxsize=8)
def rules_for(ours: str) -> tuple[tuple[bytes, bytes], ...]:
    """The headers for a console at the address `ours`."""
    said = {**ALWAYS, "Content-Security-Policy": _policy(ours)}
    if ours.startswith("https://"):
        said["Strict-Transport-Security"] = f"max-age={YEAR_S}"
    return tuple((name.lower().encode(), value.encode()) for name, value in said.items())


def _policy(ours: str) -> str:
    """Styles may stand in the page, because Streamlit's do; scripts may not, except those we know word for word."""
    socket = ours.replace("http", "ws", 1)
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'self' {' '.join(_known_scripts())}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            f"connect-src 'self' {socket}",
            "worker-src 'self' blob:",
            "manifest-src 'self'",
            "media-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ]
    )


@cache
def _known_scripts() -> tuple[str, ...]:
    """Of each script that stands in a page: its hash, as CSP level 2 writes it."""
    scripts = [*INLINE.findall(streamlits()), *SCRIPTS, SCRIPT, TO_TOP]
    return tuple(f"'sha256-{b64encode(sha256(one.encode()).digest()).decode()}'" for one in scripts)
