"""One file a source: how its requests are verified and read."""
