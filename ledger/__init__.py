"""The truth: what may happen to an event or an action. Imports no process and no screen."""
