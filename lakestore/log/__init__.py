"""The order of things: keys, stamps, logs, entries; never what rows mean."""
