"""Applying plans, and what is kept of it."""
