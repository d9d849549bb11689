"""The console: people look, decide, and every decision is audited."""
