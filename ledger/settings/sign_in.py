"""`[console.sign_in]`, `[console.proxy]`, `[console.roles]`: how people come in, and as what."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from ledger.records import Role
from ledger.settings.addresses import is_page
from ledger.settings.types import Name, Seconds, Table, Text, wrong

HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)  # a token, RFC 9110 section 5.1
DISCOVERY = "/.well-known/openid-configuration"  # OpenID Connect Discovery 1.0, section 4
DOMAIN = re.compile(r"[^\s@.,;:/*]+(\.[^\s@.,;:/*]+)*")  # in any script
ADDRESS = re.compile(r"\S(.*\S)?@" + DOMAIN.pattern)
# What browsers and servers say in them is not the proxy's to say (RFC 9110, RFC 6455, RFC 6265).
NOT_THE_PROXYS = frozenset(
    ("host", "cookie", "origin", "referer", "connection", "upgrade", "transfer-encoding", "te", "content-length",
     "content-type", "accept", "accept-encoding", "accept-language", "user-agent", "sec-websocket-key",
     "sec-websocket-version", "sec-websocket-protocol", "sec-websocket-extensions")
)  # fmt: skip
CALLBACK = "/oauth2callback"  # the one address to which Streamlit lets a provider send people back


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches what listens there. A name that must be looked up first is not."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """`https://desk.example.com/x` is of `https://desk.example.com`; "" for what is no address of the web."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        return ""
    named = f"[{host}]" if ":" in host else host
    usual = 443 if parts.scheme == "https" else 80
    return f"{parts.scheme}://{named}" + (f":{port}" if port and port != usual else "")


def _refuse_unsafe(name: str, url: str) -> None:
    origin = origin_of(url)
    if not origin or not is_page(url):
        raise wrong(name, "is no address; write it whole, as https://desk.example.com")
    if origin.startswith("http://") and not is_loopback(urlsplit(url).hostname or ""):
        raise wrong(
            name, "must begin with https:// unless it is on this machine: whoever listens could come in"
        )


def _refuse_no_domain(domains: tuple[str, ...]) -> None:
    if not all(map(DOMAIN.fullmatch, domains)):
        raise wrong(
            "email_domains", "holds what is no domain; write each as example.com, without @ and blanks"
        )


class RolesSettings(Table):
    """`[console.roles]`: who comes in as what. The e-mail address goes first, then the first group in the order of the
    file, then the domain. Whom nothing fits has no role, and does not come in."""

    emails: dict[Text, Role] = Field(default={})
    groups: dict[Name, Role] = Field(default={})
    domains: dict[Text, Role] = Field(default={})

    @model_validator(mode="after")
    def _can_be_met(self) -> Self:
        for table in ("emails", "domains"):
            folded = [name.casefold() for name in getattr(self, table)]
            for name in getattr(self, table):
                if folded.count(name.casefold()) > 1:
                    raise wrong((table, name), "stands here twice; capital letters make no difference")
                if not (ADDRESS if table == "emails" else DOMAIN).fullmatch(name):
                    form = (
                        "an address, as ana@example.com" if table == "emails" else "a domain, as example.com"
                    )
                    raise wrong((table, name), f"is not {form}")
        return self


class SignInSettings(Table):
    """`[console.sign_in]`: an OpenID Connect provider."""

    issuer: Name  # exactly as its tokens say `iss`
    metadata_url: str = ""  # left out: below the issuer, where the standard has it
    client_id: Name
    client_secret: Name  # the name of a secret
    cookie_secret: Name  # the name of a secret, with which cookies are signed: 32 characters or more
    redirect_url: Name  # this console's own address, ending in /oauth2callback
    scope: Name = "openid email profile"
    email_domains: tuple[Text, ...] = ()  # addresses of others are refused, whatever role they would have
    groups_claim: Name = "groups"  # a list of texts, or one text
    # Which claim says that the address is verified; "" where the provider has none: then no address gives a role.
    verified_claim: str = "email_verified"
    leeway_s: Annotated[Seconds, Field(le=300)] = 30.0  # how far the provider's clock may be from ours

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        for name in ("issuer", "redirect_url", *(["metadata_url"] if self.metadata_url else [])):
            _refuse_unsafe(name, getattr(self, name))
        if "?" in self.issuer or "#" in self.issuer:  # OpenID Connect Core 1.0, section 1.2
            raise wrong("issuer", "holds ? or #, which no issuer does; no token would be of it")
        if (
            urlsplit(self.redirect_url).path != CALLBACK
            or "?" in self.redirect_url
            or "#" in self.redirect_url
        ):
            raise wrong(
                "redirect_url", f"must be the console's address with {CALLBACK} after it and nothing else"
            )
        _refuse_no_domain(self.email_domains)
        if "openid" not in self.scope.split():
            raise wrong("scope", "must hold openid; without it the provider says nothing about the person")
        if self.email_domains and not self.verified_claim:
            raise wrong("email_domains", "needs verified_claim: an address that nobody verified says nothing")
        return self

    @property
    def metadata(self) -> str:
        """Where the provider describes itself."""
        return self.metadata_url or self.issuer.rstrip("/") + DISCOVERY

    @property
    def origin(self) -> str:
        """The console as people's browsers know it."""
        return origin_of(self.redirect_url)


def _is_path(address: str) -> bool:
    """A path of the same host, and nothing that a browser takes for another one: no `//`, no `\\`, no blank."""
    plain = address.isprintable() and " " not in address and "\\" not in address
    return plain and address.startswith("/") and not address.startswith("//")


class ProxySettings(Table):
    """`[console.proxy]`: a proxy in front that signs people in, and says in headers who they are."""

    name: Name  # it vouches for the people: their rows are kept under this name
    secret: Name  # the name of a secret that the proxy sends with each request, and nobody else knows
    url: Name  # the console's address as people know it
    secret_header: Name = "X-Not-Twice-Secret"  # noqa: S105 - a header, no secret
    user_header: Name = "X-Forwarded-User"  # who it is, under an id that never changes hands
    email_header: Name = "X-Forwarded-Email"
    name_header: Name = "X-Forwarded-Preferred-Username"
    groups_header: Name = "X-Forwarded-Groups"  # with commas between
    email_domains: tuple[Text, ...] = ()
    sign_out_url: str = ""  # the proxy's, such as /oauth2/sign_out

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        _refuse_unsafe("url", self.url)
        if self.url.rstrip("/").count("/") > 2 or "?" in self.url or "#" in self.url:
            raise wrong(
                "url", "must be the console's address with nothing after it, as https://desk.example.com"
            )
        _refuse_no_domain(self.email_domains)
        headers = [name for name in type(self).model_fields if name.endswith("_header")]
        for name in headers:
            if not HEADER.fullmatch(getattr(self, name)):
                raise wrong(name, "is no name of a header")
            if getattr(self, name).casefold() in NOT_THE_PROXYS:
                raise wrong(name, "is a header of browsers and servers; name one that the proxy alone writes")
        if len({getattr(self, name).casefold() for name in headers}) < len(headers):
            raise wrong("secret_header", "and the other headers must be five different ones")
        if self.sign_out_url and not (_is_path(self.sign_out_url) or is_page(self.sign_out_url)):
            raise wrong("sign_out_url", "is no address; write /oauth2/sign_out, or one with https://")
        return self

    @property
    def origin(self) -> str:
        """The console as people's browsers know it."""
        return origin_of(self.url)
