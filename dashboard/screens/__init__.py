"""One file a screen. No SQL here, and no write except through `act()`."""
