"""Who gets what: which quota limits a request, and why; on Spark also for tables of principals."""
