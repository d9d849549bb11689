"""The two scripts we write. One keeps, where nobody signs in, as which of the people this browser acts; one shows a page
from its top, which Streamlit leaves where it was scrolled to when something else opens in it.
"""

from __future__ import annotations

COOKIE = "nottwice_acts_as"
OPENED = "opened_from_the_top"  # how often this session was shown a page from its top
# Always the same word for word, so that the browser can be told to run this one and no other; the number stands beside.
SCRIPT = (
    f"document.cookie = '{COOKIE}=' + Number(document.querySelector('[data-nt-number]').dataset.ntNumber)"
    " + '; path=/; SameSite=Strict'"
)


TO_TOP = "document.querySelector('[data-testid=stMain]').scrollTo(0, 0)"


def remembering(number: int) -> str:
    return f'<span data-nt-number="{int(number)}"></span><script>{SCRIPT}</script>'


def at_top(opened: int) -> str:
    """Runs once for each number: an element that stays as it is runs nothing again."""
    return f'<span data-nt-opened="{int(opened)}"></span><script>{TO_TOP}</script>'
