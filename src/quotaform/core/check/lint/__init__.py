"""Lints: what is valid and probably not what was meant."""
