"""What sessions and shared state are, folded from logs and entries; no ADK, no SQL."""
