"""What is found by a query, and in what order: indexes in memory over rows of Arrow tables."""
