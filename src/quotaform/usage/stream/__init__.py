"""Usage from a topic into the usage table, by Structured Streaming, each record exactly once."""
