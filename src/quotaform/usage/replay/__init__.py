"""Recorded usage, replayed against the limits that a plan would make."""
