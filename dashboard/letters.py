"""Letters that are not what they look like. No Streamlit.

A name in another script is a name; a letter of another script inside a Latin word is a disguise. So a look-alike is
odd only in a word that mixes scripts, or where a whole part of an address consists of nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

HIDDEN = frozenset({"Cf", "Cc", "Cs", "Co", "Cn"})
DRESSED = frozenset({"Lu", "Ll", "Nd"})
# The scripts whose letters pass for Latin ones (Unicode Technical Standard 39, confusables).
PASS_FOR_LATIN = frozenset({"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"})
# Of those, small letters that nobody can tell from Latin ones: a word of them alone reads as a Latin word.
TWINS = frozenset("асеһіјӏорԛѕԝхуԁνοорϲϳ")
WORD = re.compile(r"[^\W_]+")
MAILBOX = re.compile(r"[^\s<>,;:\"()]+@[^\s<>,;:\"()]+")


def odd_letters(address: str) -> list[str]:
    """The names of letters in an address, or in the name beside it, that are hidden or only look Latin."""
    odd = dict.fromkeys(address[place] for place in sorted(odd_places(address)))
    return [unicodedata.name(ch, f"U+{ord(ch):04X}").capitalize() for ch in odd]


def odd_places(text: str) -> frozenset[int]:
    """Where in a text something is hidden, or only looks Latin."""
    places = {i for i, ch in enumerate(text) if _is_hidden(ch) or _is_dressed(ch)}
    for word in WORD.finditer(text):
        if any(_script(ch) == "LATIN" for ch in word[0]):
            places |= {i for i in range(*word.span()) if _script(text[i]) in PASS_FOR_LATIN}
    for mailbox in MAILBOX.finditer(text):
        for word in WORD.finditer(text, *mailbox.span()):
            if TWINS.issuperset(word[0]):
                places |= set(range(*word.span()))
    return frozenset(places)


def _is_hidden(ch: str) -> bool:
    return unicodedata.category(ch) in HIDDEN and ch not in "\n\t"


def _is_dressed(ch: str) -> bool:
    """A Latin letter or a digit in another shape: full width, mathematical. Not the raised ones, as in Mª."""
    plain = unicodedata.normalize("NFKC", ch) if unicodedata.category(ch) in DRESSED else ch
    return plain != ch and plain.isascii() and plain.isalnum()


@cache
def _script(ch: str) -> str:
    return unicodedata.name(ch, "").split(" ")[0] if ch.isalpha() else ""
