"""Who comes in: what an OpenID provider's token or a proxy's headers say of a person, held against the configuration.

Nothing here trusts a word that it has not checked: a token counts for the issuer and the client it was made for, until
it ends; an address counts when the provider says that it verified it; headers count beside the proxy's secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hmac import compare_digest

from ledger.errors import NotAdmitted, SignInEnded
from ledger.records import Role
from ledger.settings.sign_in import ProxySettings, RolesSettings, SignInSettings

TRUE = (True, 1, "true", "1")  # Entra says `xms_edov` as 1 or "1", others as true or "true"
SECONDS_MAX = 10_000_000_000  # in the year 2286; far from where a calendar ends
NAME_MAX, SUBJECT_MAX = 200, 255  # OpenID Connect Core 1.0, section 2: a subject has 255 characters at most


@dataclass(frozen=True, slots=True)
class Admitted:
    """A person who may come in: who vouches for them, as what, by which rule, and until when (None: the proxy knows)."""

    issuer: str
    subject: str
    name: str
    email: str
    role: Role
    rule: str  # `group desk`, as the configuration names it
    until: datetime | None = None


def by_token(
    claims: Mapping[str, object], door: SignInSettings, roles: RolesSettings, now: datetime
) -> Admitted:
    """The person of an id token whose signature was checked. Raises NotAdmitted, or SignInEnded when it is over."""
    if claims.get("iss") != door.issuer:
        raise NotAdmitted("Another provider signed you in than the one that is configured here.")
    if not _is_for_us(claims, door.client_id):
        raise NotAdmitted("You were signed in to another application, not to this console.")
    until = _end(claims, door, now)
    subject = _text(claims.get("sub"))
    if not subject or len(subject) > SUBJECT_MAX:
        raise NotAdmitted("Your provider did not say who you are.")
    email = _verified(claims, door)
    role, rule = _role(email, _listed(claims.get(door.groups_claim)), roles)
    name = _text(claims.get("name")) or _text(claims.get("preferred_username")) or email or subject
    return Admitted(door.issuer, subject, name[:NAME_MAX], email, role, rule, until)


def by_headers(
    headers: Callable[[str], Sequence[str]], door: ProxySettings, secret: str, roles: RolesSettings
) -> Admitted:
    """The person whom the proxy names. `headers` gives all values of a header. Raises NotAdmitted."""
    if not comes_from_proxy(headers(door.secret_header), secret):
        raise NotAdmitted("This did not come through the proxy at which you sign in.")
    subject = _only(headers(door.user_header), door.user_header)
    if not subject or len(subject) > SUBJECT_MAX:
        raise NotAdmitted("The proxy did not say who you are.")
    email = _only(headers(door.email_header), door.email_header)
    _refuse_foreign(email, door.email_domains)
    groups = [one.strip() for one in _only(headers(door.groups_header), door.groups_header).split(",")]
    role, rule = _role(email, groups, roles)
    name = _only(headers(door.name_header), door.name_header) or email or subject
    return Admitted(f"proxy:{door.name}", subject, name[:NAME_MAX], email, role, rule)


def comes_from_proxy(said: Sequence[str], secret: str) -> bool:
    """Whether exactly one secret came, and the right one; how long this takes says nothing about how near it was."""
    return len(said) == 1 and compare_digest(said[0].encode(), secret.encode())


def _is_for_us(claims: Mapping[str, object], client_id: str) -> bool:
    """OpenID Connect Core 1.0, section 3.1.3.7, points 3 to 5: we are in `aud`, and `azp`, where it stands, is us."""
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    return client_id in named and claims.get("azp", client_id) == client_id


def _end(claims: Mapping[str, object], door: SignInSettings, now: datetime) -> datetime:
    leeway = timedelta(seconds=door.leeway_s)
    begun, until = _time(claims.get("iat")), _time(claims.get("exp"))
    if until is None or begun is None:
        raise NotAdmitted("Your provider did not say until when you are signed in.")
    if begun > now + leeway:
        raise NotAdmitted("Your provider's clock is ahead of this machine's. Tell an administrator.")
    if now >= until + leeway:
        raise SignInEnded(until)
    return until + leeway


def _time(value: object) -> datetime | None:
    """Seconds since 1970, of this century or the next two; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < SECONDS_MAX:
        return None
    return datetime.fromtimestamp(value, UTC)


def _verified(claims: Mapping[str, object], door: SignInSettings) -> str:
    """The person's address, once the provider says it is theirs. Without such a claim configured there is none."""
    if not door.verified_claim:
        return ""
    email, said = _text(claims.get("email")), claims.get(door.verified_claim)
    if not email:
        raise NotAdmitted("Your provider did not name your e-mail address.")
    if not isinstance(said, bool | int | str) or said not in TRUE:
        raise NotAdmitted(
            "Your provider has not verified your e-mail address. Verify it there, then sign in again."
        )
    _refuse_foreign(email, door.email_domains)
    return email


def _refuse_foreign(email: str, domains: Sequence[str]) -> None:
    if domains and _domain(email) not in {one.casefold() for one in domains}:
        raise NotAdmitted("Your e-mail address is of a domain that is not allowed here.")


def _role(email: str, groups: Sequence[str], roles: RolesSettings) -> tuple[Role, str]:
    """The address first, then the first group in the order of the file, then the domain."""
    for address, role in roles.emails.items():
        if email and address.casefold() == email.casefold():
            return role, f"e-mail address {address}"
    for group, role in roles.groups.items():
        if group in groups:
            return role, f"group {group}"
    for domain, role in roles.domains.items():
        if email and domain.casefold() == _domain(email):
            return role, f"domain {domain}"
    raise NotAdmitted("You are known, but nobody has given you a role here. Ask an administrator for one.")


def _domain(email: str) -> str:
    return email.rpartition("@")[2].casefold()


def _listed(value: object) -> list[str]:
    named = value if isinstance(value, list) else [value]
    return [one for one in named if isinstance(one, str)]


def _only(values: Sequence[str], name: str) -> str:
    """A header that came once. Twice: somebody tried to have a say beside the proxy."""
    if len(values) > 1:
        raise NotAdmitted(
            f"The header {name} came twice. The proxy must replace what it is sent, not add to it."
        )
    return values[0].strip() if values else ""


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
