"""Before a console starts: can people come in as it is configured, and nobody else?"""

from __future__ import annotations

import os

from ledger.environment import package_folder
from ledger.errors import Misconfigured
from ledger.settings import ProxySettings, Settings, SignInSettings
from ledger.settings.sign_in import is_loopback
from ledger.settings.words import placed

SECRET_CHARACTERS_MIN = 32
STREAMLITS_OWN = "STREAMLIT_SERVER_ADDRESS"  # what the console obeys is [console] host


def refuse_open_console(settings: Settings) -> None:
    """Raises Misconfigured, with the line: no sign-in beyond this machine, a secret that is missing or guessable."""
    match settings.console.door:
        case SignInSettings() as sign_in:
            package_folder("authlib")
            _secret(settings, "sign_in", "client_secret", sign_in.client_secret)
            _refuse_guessable(settings, "sign_in", "cookie_secret", sign_in.cookie_secret)
        case ProxySettings() as proxy:
            _refuse_guessable(settings, "proxy", "secret", proxy.secret)
            _refuse_unsendable(settings, proxy.secret)
        case _:
            _refuse_other_address()


def _refuse_guessable(settings: Settings, table: str, setting: str, name: str) -> None:
    """Whoever has it can be anybody here."""
    if len(_secret(settings, table, setting, name).strip()) < SECRET_CHARACTERS_MIN:
        what = f"names the secret {name}, which is shorter than {SECRET_CHARACTERS_MIN} characters; whoever guesses it could be anybody"
        raise Misconfigured(placed(settings.config, ("console", table, setting), what))


def _refuse_unsendable(settings: Settings, name: str) -> None:
    """Blanks around a header's value are taken off on the way, and letters beyond ASCII read anew (RFC 9110, 5.5)."""
    secret = settings.secret(name)
    if not (secret.isascii() and secret.isprintable() and secret == secret.strip()):
        what = (
            f"names the secret {name}, which no header can carry; use visible ASCII without blanks around it"
        )
        raise Misconfigured(placed(settings.config, ("console", "proxy", "secret"), what))


def _secret(settings: Settings, table: str, setting: str, name: str) -> str:
    """Raises Misconfigured, with the line that names it, when it is not to be had."""
    try:
        return settings.secret(name)
    except Misconfigured as error:
        what = f"cannot be used: {str(error).removesuffix('.')}"
        raise Misconfigured(placed(settings.config, ("console", table, setting), what)) from None


def _refuse_other_address() -> None:
    """We do not listen there, but whoever set it believes that we do."""
    named = os.environ.get(STREAMLITS_OWN)
    if named is not None and not is_loopback(named):
        raise Misconfigured(
            f"{STREAMLITS_OWN} is set to another address than this machine's own, and nobody signs in at this console: "
            "whoever came could act as anybody. Unset it, or configure [console.sign_in] or [console.proxy] and [console] host."
        )
