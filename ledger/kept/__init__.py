"""What strangers sent, as people meet it: shown behind an audit row, marked as seen, examined again."""
