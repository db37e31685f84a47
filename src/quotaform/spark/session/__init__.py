"""Spark sessions: where Spark runs, how it is started, and what is said when it cannot be."""
