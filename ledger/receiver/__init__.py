"""The inbox's front door, a process of its own: verifies, stores, and only then answers."""
