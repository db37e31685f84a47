"""Recordings of other programs into the usage table."""
