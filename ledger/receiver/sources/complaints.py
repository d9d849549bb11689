"""What is wrong with the options of a source that is told everything: each with its name, and why it cannot work.

An option that does nothing is refused like one that is missing: whoever wrote it believes that it does something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ledger.receiver.sources.signed_string import SignedString
from ledger.settings import SourceSettings
from ledger.settings.sources import HEADERS

Complaint = tuple[str, str]  # an option, and what follows its name in a sentence
OWN_HEADERS = ("signature_header", "timestamp_header")  # nothing else can stand in these


def complaints(s: SourceSettings, signed: SignedString) -> Iterator[Complaint]:
    """The options as they are, and what they say is signed."""
    yield from _about_signing(s)
    yield from signed.complaints(s)
    yield from _about_headers(s)
    yield from _about_keys(s)
    yield from _about_types(s)


def _about_signing(s: SourceSettings) -> Iterator[Complaint]:
    if not s.signature_header:
        yield "signature_header", 'is missing; name the header that carries it, as in "X-Signature"'
    if "," in s.signature_prefix:
        yield "signature_prefix", "has a comma; signatures are told apart by commas"
    for option in ("timestamp_unit", "tolerance_s"):
        if option in s.model_fields_set and not s.timestamp_header:
            yield option, "does nothing without timestamp_header"


def _about_headers(s: SourceSettings) -> Iterator[Complaint]:
    """A signature or a timestamp is nothing else: an event must not be named by what differs at each attempt."""
    said = Counter(getattr(s, name).lower() for name in HEADERS)
    for name in OWN_HEADERS:
        header = getattr(s, name).lower()
        if header and said[header] > 1:
            others = [other for other in HEADERS if other != name and getattr(s, other).lower() == header]
            yield others[0], f"names the same header as {name}"


def _about_keys(s: SourceSettings) -> Iterator[Complaint]:
    if sum(map(bool, (s.key_header, s.key_path, s.key_from_body))) != 1:
        yield (
            "key_path",
            "or key_header finds the event's key; the source needs exactly one of them, or key_from_body",
        )
    for option in ("key_with", "key_spelling", "repeats_by_body"):
        if s.key_from_body and option in s.model_fields_set:
            yield option, "does nothing beside key_from_body: the content is the key"
    if s.subscription_header and s.subscription_path:
        yield "subscription_path", "is one too many; subscription_header names it already"


def _about_types(s: SourceSettings) -> Iterator[Complaint]:
    if sum(map(bool, (s.type_header, s.type_path, s.type_constant))) != 1:
        yield "type_path", "or type_header or type_constant is needed, exactly one of them"
    if s.type_otherwise and s.type_constant:
        yield "type_otherwise", "does nothing beside type_constant"
