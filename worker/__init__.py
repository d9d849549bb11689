"""Does the work of accepted events and makes the approved calls, one lease at a time."""
