"""Acme's handlers. The worker looks for `handlers` here; importing the two modules registers theirs."""

from acme import billing, support
from acme.registry import handlers

__all__ = ["billing", "handlers", "support"]
