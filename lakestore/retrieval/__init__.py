"""What `lake.search` is asked: rankings by name, and indexes of what SQL shows."""
