"""Many uncertain sends with one cause, decided by one word: sent, the same key again, or not to be sent. Never a new key.

What a person sees is a list; what is decided is each send that still is as it was seen, with an audit row of its own.
Every other one is left alone, and says why. The database holds it as well (sql/0039).
"""

from ledger.together.deciding import LIST_MAX as LIST_MAX
from ledger.together.deciding import PACE_S as PACE_S
from ledger.together.deciding import take_back as take_back
from ledger.together.lists import agree as agree
from ledger.together.lists import decide as decide
from ledger.together.lists import disagree as disagree
from ledger.together.lists import needs_second as needs_second
