"""Addresses in the configuration: which ones can be used, and when two of them are the same server. Pure."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}


def is_api(address: str) -> bool:
    """Whether it is an address of an API: http or https, without query, sign-in or blank."""
    parts = _parts(address, "http", "https")
    return parts is not None and not (parts.query or parts.fragment)


def is_page(address: str) -> bool:
    """Whether a person can follow it: http or https, without sign-in or blank."""
    return _parts(address, "http", "https") is not None


def is_smtp(address: str) -> bool:
    """Whether it is a mail server: smtp, a host and perhaps a port."""
    parts = _parts(address, "smtp")
    return parts is not None and not (parts.path.strip("/") or parts.query or parts.fragment)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def normal(address: str, port: int | None = None) -> str:
    """One spelling of a usable address: host in lower case, the port only where it is no default, no slash at the end.

    `port` is the one that holds where the address names none.
    """
    parts = urlsplit(address)
    at, host = parts.port or port or DEFAULT_PORTS.get(parts.scheme), parts.hostname or ""
    host = f"[{host}]" if ":" in host else host.rstrip(".")
    shown = host if at == DEFAULT_PORTS.get(parts.scheme) else f"{host}:{at}"
    return f"{parts.scheme}://{shown}{parts.path.rstrip('/')}"


def _parts(address: str, *schemes: str) -> SplitResult | None:
    """None where it is of another scheme, has no host, a port that is none, a sign-in, or a character no address has."""
    if any(c.isspace() or not c.isprintable() for c in address):
        return None
    try:
        parts = urlsplit(address)
        usable = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable and "@" not in parts.netloc else None
