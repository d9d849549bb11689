"""The one registry that all of Acme's modules add to."""

from worker.handlers import Handlers

handlers = Handlers()
