"""What is observed of a message apart from the answers to its own calls: notices, hints, look-ups, and whose message it is."""
