"""Many clusters: a Spark session, a task per cluster with the code that runs without Spark, and fleet reports."""
