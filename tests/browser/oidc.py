"""A real OpenID Connect provider as a process, and a console at which one signs in there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

from playwright.sync_api import Page

from tests.browser import stage
from tests.ports import free_ports

CLIENT = "not-twice"
SECRETS = {"desk-client": "a client's secret", "desk-cookies": "thirty-two characters of a secret"}
PROXY_SECRET = "thirty-two characters of a proxy"
THROUGH_PROXY = """
[console.proxy]
name = "gate"
secret = "shared"
url = "{gate}"

[console.roles]
groups = {{ "desk" = "support" }}
"""
SIGN_IN = """
[console.sign_in]
issuer = "{issuer}"
client_id = "not-twice"
client_secret = "desk-client"
cookie_secret = "desk-cookies"
redirect_url = "{console}/oauth2callback"
leeway_s = 0

[console.roles]
emails = {{ "bo.lindqvist@acme.example" = "admin" }}
groups = {{ "desk" = "support", "watch" = "viewer" }}
"""


@dataclass(frozen=True)
class Provider:
    """Whom it knows can be changed while it runs; what stands among a person's claims stands in their token."""

    url: str

    def knows(self, subject: str, **claims: object) -> str:
        """A person, under a subject; told again, with other claims."""
        said: dict[str, object] = {"email": f"{subject}@acme.example", "email_verified": True, **claims}
        address = f"{self.url}/users/{quote(subject)}"
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(address, json.dumps(said).encode(), headers, method="PUT")
        with urllib.request.urlopen(asked, timeout=stage.READY_WITHIN_S):
            return subject

    def lets_in(self, page: Page, subject: str) -> None:
        """From the console's own page through the provider's, as the person does it."""
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.locator("input[name='sub']").fill(subject)
        page.get_by_role("button", name="Authorize").click()
        page.wait_for_url(lambda url: not url.startswith(self.url))
        page.locator("h1").first.wait_for()
        stage.settled(page)


@contextmanager
def provider() -> Iterator[Provider]:
    """Ends with the block."""
    port = free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as log:
        command = [sys.executable, "-P", "-m", "oidc_provider_mock", "--port", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "NO_COLOR": "1"})
        try:
            _until_it_answers(f"{url}/.well-known/openid-configuration", process)
            yield Provider(url)
        finally:
            process.terminate()
            process.wait(stage.READY_WITHIN_S)


def _until_it_answers(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + stage.READY_WITHIN_S
    while time.monotonic() < until:
        assert process.poll() is None, "the provider ended"
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the provider does not answer")


@contextmanager
def console(database: str, provider: Provider) -> Iterator[str]:
    """A console of its own process at which people of this provider sign in."""
    port = free_ports(1)[0]
    more = SIGN_IN.format(issuer=provider.url, console=f"http://127.0.0.1:{port}")
    with stage.console(database, port=port, more=more, secrets=SECRETS) as url:
        yield url


@contextmanager
def console_behind(gate: str, database: str) -> Iterator[str]:
    """A console of its own process that believes the proxy at the address `gate`."""
    more = THROUGH_PROXY.format(gate=gate)
    with stage.console(database, more=more, secrets={"shared": PROXY_SECRET}) as url:
        yield url
