"""`python -m ledger.cli`: the same as `nottwice`."""

from ledger.cli import main

main()
