"""Who comes in: what a token or a proxy's headers must say, and what nobody gets in with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from ledger.errors import NotAdmitted, SignInEnded
from ledger.records import Role
from ledger.settings import ProxySettings, RolesSettings, SignInSettings
from ledger.sign_in.admission import Admitted, by_headers, by_token

NOW = datetime(2026, 11, 30, 16, 0, tzinfo=UTC)
ISSUER, CLIENT = "https://id.example.com", "not-twice"
SECRET = "a secret of thirty-two characters"
ROLES = RolesSettings(
    emails={"Bo@acme.example": Role.ADMIN},
    groups={"desk": Role.SUPPORT, "audit": Role.AUDITOR},
    domains={"acme.example": Role.VIEWER},
)


def door(**differs: object) -> SignInSettings:
    usual: dict[str, object] = {
        "issuer": ISSUER,
        "client_id": CLIENT,
        "client_secret": "client",
        "cookie_secret": "cookies",
        "redirect_url": "https://desk.example.com/oauth2callback",
    }
    return SignInSettings.model_validate(usual | differs)


def token(**differs: object) -> dict[str, object]:
    """What a provider says of Ana, valid for an hour from NOW on; None takes a claim away."""
    said = {
        "iss": ISSUER,
        "aud": CLIENT,
        "sub": "u-1",
        "iat": NOW.timestamp(),
        "exp": (NOW + timedelta(hours=1)).timestamp(),
        "email": "ana@acme.example",
        "email_verified": True,
        "name": "Ana Soto",
        "groups": ["other", "desk"],
    }
    return {name: value for name, value in (said | differs).items() if value is not None}


def test_a_token_that_is_in_order_lets_in_whom_it_names() -> None:
    found = by_token(token(), door(), ROLES, NOW)
    until = NOW + timedelta(hours=1, seconds=30)
    assert found == Admitted(ISSUER, "u-1", "Ana Soto", "ana@acme.example", Role.SUPPORT, "group desk", until)


@pytest.mark.parametrize(
    ("differs", "words"),
    [
        ({"iss": f"{ISSUER}/"}, "Another provider"),
        ({"iss": None}, "Another provider"),
        ({"iss": [ISSUER]}, "Another provider"),
        ({"aud": "other"}, "another application"),
        ({"aud": None}, "another application"),
        ({"aud": ["other", "more"]}, "another application"),
        ({"aud": [CLIENT, "other"], "azp": "other"}, "another application"),
        ({"exp": None}, "until when"),
        ({"exp": "2099"}, "until when"),
        ({"exp": True}, "until when"),
        ({"exp": float("inf")}, "until when"),
        ({"exp": float("nan")}, "until when"),
        ({"exp": 9e11}, "until when"),
        ({"iat": None}, "until when"),
        ({"iat": NOW.timestamp() + 31}, "clock is ahead"),
        ({"sub": None}, "who you are"),
        ({"sub": " "}, "who you are"),
        ({"sub": 7}, "who you are"),
        ({"sub": "x" * 256}, "who you are"),
        ({"email": None}, "did not name your e-mail"),
        ({"email_verified": False}, "not verified"),
        ({"email_verified": None}, "not verified"),
        ({"email_verified": "false"}, "not verified"),
        ({"email_verified": "yes"}, "not verified"),
        ({"email_verified": ["true"]}, "not verified"),
        ({"email": "ana@evil.example", "groups": []}, "given you a role"),
        ({"email": "ana@sub.acme.example", "groups": ["Desk", "desk "]}, "given you a role"),
        ({"email": "ana@notacme.example", "groups": {"desk": 1}}, "given you a role"),
    ],
)
def test_any_other_token_lets_nobody_in(differs: Mapping[str, object], words: str) -> None:
    with pytest.raises(NotAdmitted, match=words):
        by_token(token(**differs), door(), ROLES, NOW)


def test_a_sign_in_ends_when_its_token_does_and_says_when() -> None:
    ends = token(exp=NOW.timestamp())
    assert by_token(ends, door(), ROLES, NOW + timedelta(seconds=29.9)).subject == "u-1", "the leeway"
    with pytest.raises(SignInEnded, match="Your sign-in ended at 16:00 UTC. Sign in again."):
        by_token(ends, door(), ROLES, NOW + timedelta(seconds=30))
    with pytest.raises(SignInEnded):
        by_token(ends, door(leeway_s=0), ROLES, NOW)


@pytest.mark.parametrize(
    ("differs", "role", "rule"),
    [
        ({"email": "BO@ACME.example"}, Role.ADMIN, "e-mail address Bo@acme.example"),
        ({"groups": ["audit", "desk"]}, Role.SUPPORT, "group desk"),
        ({"groups": "audit"}, Role.AUDITOR, "group audit"),
        ({"groups": None}, Role.VIEWER, "domain acme.example"),
        ({"groups": [7, None, ["desk"]]}, Role.VIEWER, "domain acme.example"),
        ({"email_verified": 1}, Role.SUPPORT, "group desk"),
        ({"email_verified": "true"}, Role.SUPPORT, "group desk"),
        ({"aud": [CLIENT, "other"], "azp": CLIENT}, Role.SUPPORT, "group desk"),
    ],
)
def test_a_role_is_given_by_address_then_group_then_domain(
    differs: Mapping[str, object], role: Role, rule: str
) -> None:
    found = by_token(token(**differs), door(), ROLES, NOW)
    assert (found.role, found.rule) == (role, rule)


def test_an_address_that_nobody_verified_gives_no_role_and_is_not_kept() -> None:
    unverified = door(verified_claim="")
    found = by_token(token(email="bo@acme.example"), unverified, ROLES, NOW)
    assert (found.role, found.email) == (Role.SUPPORT, ""), "by the group; the address might be anybody's"
    with pytest.raises(NotAdmitted, match="given you a role"):
        by_token(token(email="bo@acme.example", groups=[]), unverified, ROLES, NOW)


def test_another_claim_may_say_that_it_is_verified() -> None:
    entra = door(verified_claim="xms_edov")
    assert by_token(token(xms_edov="1", email_verified=None), entra, ROLES, NOW).email
    with pytest.raises(NotAdmitted, match="not verified"):
        by_token(token(), entra, ROLES, NOW)


def test_addresses_of_other_domains_stay_out_whatever_group_they_are_in() -> None:
    with pytest.raises(NotAdmitted, match="not allowed here"):
        by_token(token(email="ana@evil.example"), door(email_domains=("Acme.example",)), ROLES, NOW)
    assert by_token(token(), door(email_domains=("Acme.example",)), ROLES, NOW)


@pytest.mark.parametrize(
    ("differs", "name"),
    [
        ({"name": None, "preferred_username": "ana"}, "ana"),
        ({"name": " "}, "ana@acme.example"),
        ({"name": ["Ana"]}, "ana@acme.example"),
        ({"name": "A" * 999}, "A" * 200),
    ],
)
def test_everybody_has_a_name(differs: Mapping[str, object], name: str) -> None:
    assert by_token(token(**differs), door(), ROLES, NOW).name == name


# ── Behind a proxy ────────────────────────────────────────────────────────────────────────────────────

PROXY = ProxySettings(name="gate", secret="shared", url="https://desk.example.com")
SAID = {
    "X-Not-Twice-Secret": [SECRET],
    "X-Forwarded-User": ["u-1"],
    "X-Forwarded-Email": ["ana@acme.example"],
    "X-Forwarded-Groups": ["other, desk"],
}


def through(said: Mapping[str, Sequence[str]], proxy: ProxySettings = PROXY) -> Admitted:
    return by_headers(lambda name: said.get(name, []), proxy, SECRET, ROLES)


def test_headers_beside_the_secret_let_in_whom_they_name() -> None:
    assert through(SAID) == Admitted(
        "proxy:gate", "u-1", "ana@acme.example", "ana@acme.example", Role.SUPPORT, "group desk"
    )


@pytest.mark.parametrize(
    ("differs", "words"),
    [
        ({"X-Not-Twice-Secret": []}, "did not come through the proxy"),
        ({"X-Not-Twice-Secret": [""]}, "did not come through the proxy"),
        ({"X-Not-Twice-Secret": [SECRET[:-1]]}, "did not come through the proxy"),
        ({"X-Not-Twice-Secret": ["geheim€"]}, "did not come through the proxy"),
        ({"X-Not-Twice-Secret": [SECRET, SECRET]}, "did not come through the proxy"),
        ({"X-Forwarded-User": []}, "who you are"),
        ({"X-Forwarded-User": ["bo", "ana"]}, "came twice"),
        ({"X-Forwarded-Email": ["bo@acme.example", "ana@acme.example"]}, "came twice"),
        ({"X-Forwarded-Groups": ["desk", "other"]}, "came twice"),
        ({"X-Forwarded-Groups": [""], "X-Forwarded-Email": [""]}, "given you a role"),
    ],
)
def test_without_the_secret_or_said_twice_headers_let_nobody_in(
    differs: Mapping[str, Sequence[str]], words: str
) -> None:
    with pytest.raises(NotAdmitted, match=words):
        through(SAID | dict(differs))
