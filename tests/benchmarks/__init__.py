"""Figures, measured side by side with the queues a user would pick instead: `make bench`, `make bench ONLY=drain`.

One JSON object a line on stdout; what is going on, on stderr. Every figure is the median of five rounds in which ours
and the others take turns on one server with `fsync` and `synchronous_commit` on. The machine is whatever it is:
only ratios of one run mean something.
"""
