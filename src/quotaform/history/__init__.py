"""Snapshots over time as an append-only table: append, show, compare two times, compare clusters with a time."""
