"""A console of its own process on a database, and a real Chromium that looks at it."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from ledger.running.processes import console as console_service
from ledger.running.processes import make_folders
from ledger.settings import load
from tests import starts
from tests.ports import free_ports

HOUSE = Path(__file__).parents[2]
READY_WITHIN_S = 40.0  # a deadline on a busy machine, not a duration
NONE: Mapping[str, str] = {}
WAIT_MS = 40_000  # a deadline on a busy machine, not a duration
VIEWPORT = ViewportSize(width=1280, height=1000)
# The last switch of a name counts, so what Playwright turns off is named again. The address bar's own pages, which
# nobody sees here, are loaded beside each page of ours, and cost a third of a visit's CPU (Chromium 156).
UNSEEN = (
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"),
    *(
        "HttpsUpgrades",
        "HttpsFirstBalancedModeAutoEnable",
        "PaintHolding",
        "MediaRouter",
        "OptimizationHints",
    ),
    *("DestroyProfileOnBrowserClose", "ThirdPartyStoragePartitioning", "NetworkTimeServiceQuerying"),
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "AvoidCorsURLLoaderRestartOnRedirect", "PreconnectToSearch"),
    *("LensOverlay", "AimEnabled"),
)
# Without these the browser makes connections of its own, which a closed network refuses many at a time.
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", f"--disable-features={','.join(UNSEEN)}"),
)
# Else each visit starts a process, which compiles the console's code anew: a third of a visit's CPU (Chromium 156).
ONE_RENDERER = ("--disable-site-isolation-trials", "--renderer-process-limit=1")
CONFIGURATION = """
[sources.shop]
kind = "generic"
secrets = ["shop-webhook"]
signature_header = "X-Signature"
key_path = "id"
type_path = "type"

[providers.agentmail]
kind = "agentmail"
key = "agentmail-api"
window_s = 86400

[providers.inboxili]
kind = "inboxili"
key = "inboxili-api"
log_url = "http://127.0.0.1:9/log"

[worker]
lease_s = 60
decided_wait_s = {decided_wait_s}

[console]
refresh_s = {refresh_s}
people = [
    {{ name = "Ana Soto", email = "ana.soto@acme.example", role = "support" }},
    {{ name = "Bo Lindqvist", email = "bo.lindqvist@acme.example", role = "admin" }},
    {{ name = "Eva Horn", email = "eva.horn@acme.example", role = "engineer" }},
]
"""


@contextmanager
def held_port() -> Iterator[int]:
    """Within the block the system gives it to nobody; a server takes it over, as often as it likes (SO_REUSEADDR)."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


@contextmanager
def console(
    url: str,
    *,
    refresh_s: float = 2.0,
    decided_wait_s: float = 15.0,
    port: int = 0,
    more: str = "",
    secrets: Mapping[str, str] = NONE,
    anew: bool = False,
) -> Iterator[str]:
    """The console as `nottwice console` starts it; its address. Ends with the block. `more` is added to its tables.

    `anew`: by an interpreter of its own, for whoever measures what it takes.
    """
    home = Path(tempfile.mkdtemp(prefix="nottwice-console-"))
    config = home / "nottwice.toml"
    config.write_text(CONFIGURATION.format(refresh_s=refresh_s, decided_wait_s=decided_wait_s) + more)
    port = port or free_ports(1)[0]
    given = {"NOTTWICE_HOME": str(home), "NOTTWICE_CONFIG": str(config), "DATABASE_URL": url}
    given["NOTTWICE_CONSOLE_PORT"] = str(port)
    (home / "secrets").mkdir()
    for name, secret in secrets.items():
        (home / "secrets" / name).write_text(secret)
    settings = load(config).model_copy(update={"home": home, "console_port": port})
    service = console_service(settings)
    make_folders([service])
    with (home / "console.log").open("wb") as log:
        process = starts.start(
            service.command,
            env={**os.environ, **given},
            stdout=log.fileno(),
            stderr=log.fileno(),
            anew=anew,
            folder=service.folder,
            kind="console",
        )
    try:
        _ready(f"http://127.0.0.1:{port}", process, home / "console.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(READY_WITHIN_S)
        sys.stdout.write(
            (home / "console.log").read_text(errors="replace")[-4000:]
        )  # shown when a test fails
        shutil.rmtree(home, ignore_errors=True)


def _ready(url: str, process: starts.Running, log: Path) -> None:
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text(errors="replace")
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"The console was not ready in time: {log.read_text(errors='replace')}")


def chromium() -> str | None:
    """The system's Chromium, whatever it is called here."""
    names = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


@contextmanager
def browser(*, one_renderer: bool = True) -> Iterator[Browser]:
    """With a renderer for each visit, as people have it, nothing that one has compiled makes the next one faster."""
    more = ONE_RENDERER if one_renderer else ()
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=chromium(), args=[*QUIET, *more])
        try:
            yield started
        finally:
            started.close()


def settled(page: Page) -> None:
    """Until no script runs for this page any more and nothing on it is stale."""
    page.wait_for_selector("[data-testid='stApp'][data-test-script-state='notRunning']", timeout=WAIT_MS)
    page.wait_for_function("() => !document.querySelector('[data-stale=\"true\"]')", timeout=WAIT_MS)
