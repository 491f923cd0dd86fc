"""What rows look like: one file per table, Arrow and Parquet, no I/O, no ADK."""
