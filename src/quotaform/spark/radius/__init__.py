"""Whose effective limits plans change."""
