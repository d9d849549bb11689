"""A canary: an HTTP server of our own that must never be asked for anything, and words that try to make a page ask it."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Canary:
    """Its address, and what it was asked for."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        heard = self.heard

        class Ear(BaseHTTPRequestHandler):
            def handle(self) -> None:  # a connection alone is too much
                heard.append("a connection")
                super().handle()

            def do_GET(self) -> None:
                heard.append(self.path)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing on the test's output."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Ear)
        self.port = int(self.server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def lives(self) -> None:
        """Proves that it hears, and forgets it."""
        urllib.request.urlopen(f"{self.url}/proof", timeout=40).close()
        assert "/proof" in self.heard
        self.heard.clear()

    def words(self) -> str:
        """Every way we know to make a page, a table, a chart, a terminal or a spreadsheet do something."""
        u = self.url
        return " ".join(
            (
                f"<img src={u}/1 onerror=alert(1)><script>fetch('{u}/2')</script>",
                f"![a]({u}/3) [b]({u}/4) {u}/5 <{u}/6> www.evil.example a@b.c",
                f"<a href='{u}/7'>x</a><b>bold</b></div><h1>APPROVED</h1> :red[c] $\\frac{{1}}{{2}}$ :material/home:",
                f"</style><link rel=stylesheet href={u}/8><iframe src={u}/9></iframe><svg onload=fetch('{u}/10')>",
                f"\x1b[31m\x1b]8;;{u}/11\x07ansi\x1b[0m \u202eforged\u2066 \u200bzero",
                f'=HYPERLINK("{u}/12","y") =WEBSERVICE("{u}/13") @import url({u}/14);',
            )
        )


@contextmanager
def canary() -> Iterator[Canary]:
    made = Canary()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join(40)
