"""Pictures of the way in, of a console of its own at which people sign in."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

from tests.browser.oidc import Provider
from tests.browser.shots import Shot

PEOPLE: dict[str, dict[str, object]] = {
    "ana.soto": {"name": "Ana Soto", "groups": ["desk"]},
    "mallory": {"name": "Mallory", "groups": ["sales"]},
}


def shots(provider: Provider) -> tuple[Shot, ...]:
    for subject, claims in PEOPLE.items():
        provider.knows(subject, **claims)

    def as_(subject: str) -> Callable[[Page], None]:
        return lambda page: provider.lets_in(page, subject)

    return (
        Shot("sign-in", "/review", "Sign in to see your page"),
        Shot("sign-in-dark", "/review", "Sign in to see your page", dark=True),
        Shot("sign-in-900", "/review", "Sign in to see your page", width=900),
        Shot("sign-in-refused", "/review", "Sign in to see your page", as_("mallory")),
        Shot("sign-in-refused-dark", "/review", "Sign in to see your page", as_("mallory"), dark=True),
        Shot("me", "/me", "Sign in to see your page", as_("ana.soto")),
        Shot("me-dark", "/me", "Sign in to see your page", as_("ana.soto"), dark=True),
    )
