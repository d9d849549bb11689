"""One file a provider: a request in, an outcome out. Nothing else talks to a provider."""
