"""A stand-in for the providers with fault switches, and the demo's traffic."""
