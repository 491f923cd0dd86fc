"""A small shop whose support agent fills a lake: what `lakestore demo` runs, and tests reuse."""
