"""Recording what brokers measure, without Spark."""
