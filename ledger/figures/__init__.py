"""Figures: minutes that are counted, folded into hours and months, and how large the ledger is."""
