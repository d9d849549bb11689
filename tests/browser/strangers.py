"""Words of strangers, and what would be on a page if one of them were taken for more than text."""

from __future__ import annotations

from playwright.sync_api import Page

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</div><h1>APPROVED</h1>",
    "![x](http://198.51.100.7/x.png) www.evil.example a@b.c",
    ":red[**bold**] [link](http://198.51.100.7)",
    "$\\frac{1}{2}$ :material/home: `code`",
    "\u202egpj.exe \u200bzero",
)
STRANGERS = "main img, main a[href*='evil'], main a[href*='198.51'], main .katex"


def watched(page: Page) -> list[str]:
    """Whatever would mean that a stranger's words did something."""
    outside: list[str] = []
    page.on("request", lambda request: outside.append(request.url) if "198.51.100" in request.url else None)
    page.on("dialog", lambda dialog: outside.append(f"dialog {dialog.message}"))
    return outside
