"""Reads YAML as plain values with their locations."""
