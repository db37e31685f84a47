"""Resolving requests."""
