"""Who comes in, and as whom: the door's own checks, and the people that rows speak of."""
