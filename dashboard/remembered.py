"""The one script we write: it keeps, where nobody signs in, as which of the people this browser acts."""

from __future__ import annotations

COOKIE = "nottwice_acts_as"
# Always the same word for word, so that the browser can be told to run this one and no other; the number stands beside.
SCRIPT = (
    f"document.cookie = '{COOKIE}=' + Number(document.querySelector('[data-nt-number]').dataset.ntNumber)"
    " + '; path=/; SameSite=Strict'"
)


def remembering(number: int) -> str:
    return f'<span data-nt-number="{int(number)}"></span><script>{SCRIPT}</script>'
