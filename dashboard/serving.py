"""The console as a server: Streamlit with our gate in front, and what it must know to sign people in.

Secrets are handed over in memory. Nothing of them is written to a file, as Streamlit's own `secrets.toml` would be.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from streamlit.components.v2 import manifest_scanner

from dashboard.gate import Entry, Gate
from ledger.settings import ProxySettings, Settings, SignInSettings

SCRIPT = Path(__file__).with_name("app.py")


def serve(settings: Settings) -> None:
    """Until SIGTERM. Raises Misconfigured when a secret is not to be had."""
    bring_no_components()
    app = st.App(SCRIPT, secrets=secrets(settings), middleware=[Middleware(Gate, entry=entry(settings))])
    app.run(config=options(settings))


def bring_no_components() -> None:
    """No package that is installed beside us adds anything to the console's pages.

    Streamlit 1.67 looks for those that would when it starts, and reads the metadata of all packages for it.
    """
    manifest_scanner.scan_component_manifests = list


def options(settings: Settings) -> dict[str, object]:
    """What must hold whatever a `config.toml` or the environment says."""
    return {
        "server.address": settings.console.host,
        "server.port": settings.console_port,
        "server.headless": True,
        "server.enableCORS": True,  # that is: protection against foreign origins
        "server.enableXsrfProtection": True,
        "server.enableAgentApi": False,
        # Else after each run, of every session, it looks where the sources of all modules are: half of what a visit takes.
        "server.fileWatcherType": "none",
        "client.showErrorDetails": "none",
    }


def entry(settings: Settings) -> Entry:
    match settings.console.door:
        case ProxySettings() as proxy:
            return Entry(proxy.origin, proxy.secret_header, settings.secret(proxy.secret))
        case SignInSettings() as sign_in:
            return Entry(sign_in.origin, signs_in=True)
        case _:
            return Entry()


def secrets(settings: Settings) -> dict[str, object]:
    """In Streamlit's words. Without sign-in there are none."""
    door = settings.console.sign_in
    if door is None:
        return {}
    return {
        "auth": {
            "redirect_uri": door.redirect_url,
            "cookie_secret": settings.secret(door.cookie_secret),
            "client_id": door.client_id,
            "client_secret": settings.secret(door.client_secret),
            "server_metadata_url": door.metadata,
            "client_kwargs": {"scope": door.scope, "prompt": "select_account"},
        }
    }
