"""Policies: JSON Schema files against which entries are validated."""
