"""Usage of quotas as a person reads it."""
