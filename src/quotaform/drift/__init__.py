"""Drift: how a cluster differs from what was last agreed, and who is notified of it."""
