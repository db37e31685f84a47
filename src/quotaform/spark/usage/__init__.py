"""What clients use of their quotas, on Spark: recordings into one table, and what follows from it."""
